"""A small file whose changes take effect while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pinlater.errors import ConfigError

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0


class WatchedFile:
    """Tells of new content of a file, once for each content.

    A file that is being written, is malformed or has vanished costs a line in the log; what was read before
    stays in force, and the next new content is tried.

    Args:
        path: of the file.
        on_change: takes the content; what it raises means that the content is refused.
        poll_seconds: time between two looks.
    """

    def __init__(self, path: Path, on_change: Callable[[bytes], None], poll_seconds: float = POLL_SECONDS) -> None:
        self.path = path
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._stamp: tuple[int, ...] = ()
        self._digest = b""
        self._is_missing = False

    def load(self) -> None:
        """Read the file for the first time.

        Raises:
            ConfigError: it cannot be read, or its content is refused.
        """
        try:
            content = self._read_if_touched()
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}; check the path") from None
        if content is not None:
            self._on_change(content)

    async def watch(self) -> NoReturn:
        """Look again and again; to be run as a task."""
        while True:
            await asyncio.sleep(self._poll_seconds)
            self.check()

    def check(self) -> None:
        """Look once; never raises."""
        try:
            content = self._read_if_touched()
        except OSError as error:
            if not self._is_missing:
                log.warning("%s cannot be read (%s); what was read before stays in force", self.path, error.strerror)
            self._is_missing = True
            self._stamp = ()  # it may come back with the very same times
            return
        if self._is_missing:
            log.info("%s is back", self.path)
        self._is_missing = False
        if content is not None:
            self._offer(content)

    def _read_if_touched(self) -> bytes | None:
        """Return the content if it is another one than last time."""
        status = os.stat(self.path)  # noqa: PTH116 - this is what Path.stat does, and it names what is compared
        # Taken before reading: a change in between is then seen at the next look.
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return None
        content = self.path.read_bytes()
        digest = hashlib.sha256(content).digest()
        self._stamp = stamp
        if digest == self._digest:
            return None
        # Remembered before it is tried, so that a refused content is refused once.
        self._digest = digest
        return content

    def _offer(self, content: bytes) -> None:
        try:
            self._on_change(content)
        except ConfigError as error:
            log.error("%s (what was read before stays in force)", error)  # noqa: TRY400 - the line says it all
        except Exception:
            log.exception("%s could not be put into force; what was read before stays so", self.path)
        else:
            log.info("%s has changed and was read again", self.path)
