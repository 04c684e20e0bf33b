"""A file that lists the servers, one ``host:port`` a line, and is read again when it changes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from pinlater.client.address import Address
from pinlater.errors import ConfigError

_CHECK_SECONDS = 1.0

log = logging.getLogger(__name__)


class ServerFile:
    """The addresses in a file, read again when it changes.

    The file is checked when ``addresses`` is called, at most once a second. If it cannot be read or names no server,
    that is logged, and the known servers stay in use.

    Raises:
        ConfigError: the file cannot be used at the first reading.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(path)
        self._clock = clock
        self._next_check = clock() + _CHECK_SECONDS
        self._signature = self._read_signature()
        self._addresses = self._read()

    def addresses(self) -> tuple[Address, ...]:
        """Return the servers that the file lists now, without duplicates."""
        now = self._clock()
        if now >= self._next_check:
            self._next_check = now + _CHECK_SECONDS
            self._check()
        return self._addresses

    def _check(self) -> None:
        signature = self._read_signature()
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._addresses = self._read()
        except ConfigError as error:
            log.warning("%s; the servers known so far are kept", error)

    def _read_signature(self) -> tuple[int, int, int] | None:
        """Return a value that changes with the file; a rename over it changes the inode."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> tuple[Address, ...]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            found = tuple(dict.fromkeys(Address.parse(line) for line in lines if line.strip()))
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"server file {self._path}: {error}") from error
        if not found:
            raise ConfigError(f"server file {self._path} names no server; write one host:port a line")
        return found
