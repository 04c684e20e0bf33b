"""TLS contexts that follow their files."""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pinlater.errors import ConfigError

_CHECK_SECONDS = 1.0

log = logging.getLogger(__name__)


def lacks_key(path: str | os.PathLike[str]) -> bool:
    """Tell whether a PEM file has a certificate and no private key; False if it cannot be read."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return b"CERTIFICATE-----" in content and b"PRIVATE KEY-----" not in content


class CurrentTlsContext:
    """The current TLS context of some files, for the next connection.

    The files are checked for changes at most once a second. While they cannot be used, as between the writing of a
    certificate and of its key, the context made before stays in use. They are read again at each check, since the
    reason may pass, such as a lack of file descriptors; the log says it once for each change.
    """

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        self._seen: tuple[object, ...] = ()
        self._complained_of: tuple[object, ...] = ()
        self._next_look = 0.0

    def latest(
        self, paths: Iterable[str | os.PathLike[str] | None], make: Callable[[], ssl.SSLContext]
    ) -> ssl.SSLContext:
        """Return the context, made anew if any of the files has changed.

        Args:
            paths: the files; None stands for one that is not given.
            make: makes the context from them.

        Raises:
            ConfigError, OSError: raised by ``make`` when no context was made before.
        """
        now = time.monotonic()
        if self._context is not None and now < self._next_look:
            return self._context
        self._next_look = now + _CHECK_SECONDS
        seen = tuple(_stamp(path) for path in paths if path)
        if self._context is not None and seen == self._seen:
            return self._context
        try:
            self._context, self._seen = make(), seen
        except (ConfigError, OSError) as error:
            if self._context is None:
                raise
            if seen != self._complained_of:
                log.warning("%s; the files read before stay in use", error)
                self._complained_of = seen
        return self._context


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns  # the last shows a change of access
