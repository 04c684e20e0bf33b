"""Watch a small file, and apply its changes while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pinlater.errors import ConfigError
from pinlater.server.config.kept_contents import NOTHING_KEPT, KeptContents

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0


class WatchedFile:
    """Passes each new content of a file to a callback.

    If the file is incomplete, malformed or missing, this is logged, the previous content stays in effect, and the next
    change is tried.

    Args:
        path: where the file is.
        on_change: receives the content; raises to refuse it.
        poll_seconds: time between two checks.
        kept: has the previous content if another process of this server has used the file.
    """

    def __init__(
        self,
        path: Path,
        on_change: Callable[[bytes], None],
        poll_seconds: float = POLL_SECONDS,
        kept: KeptContents = NOTHING_KEPT,
    ) -> None:
        self.path = path
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._kept = kept
        self._stamp: tuple[int, ...] = ()
        self._digest = b""
        self._is_missing = False

    def load(self) -> None:
        """Read the file for the first time; apply the previous content if that fails.

        Raises:
            ConfigError: it cannot be read, or its content was refused, and there is no previous content.
        """
        try:
            self._load()
        except ConfigError as error:
            previous = self._kept.last(self.path)
            if previous is None:
                raise
            self._on_change(previous)
            log.error("%s (the previous content stays in effect)", error)  # noqa: TRY400 - a traceback would add nothing

    async def watch(self) -> NoReturn:
        """Check the file regularly, until cancelled."""
        while True:
            await asyncio.sleep(self._poll_seconds)
            self.check()

    def check(self) -> None:
        """Check the file once; never raises."""
        try:
            content = self._read_if_touched()
        except OSError as error:
            if not self._is_missing:
                log.warning("%s cannot be read (%s); the previous content stays in effect", self.path, error.strerror)
            self._is_missing = True
            self._stamp = ()  # it may come back with the same times
            return
        if self._is_missing:
            log.info("%s can be read again", self.path)
        self._is_missing = False
        if content is not None:
            self._offer(content)

    def forget_if_unreadable(self) -> None:
        """Let the content count as new once the file can be read, if it cannot be now: another file needed it."""
        try:
            self.path.read_bytes()
        except OSError:
            self._stamp, self._digest = (), b""

    def _load(self) -> None:
        try:
            content = self._read_if_touched()
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}; check the path") from None
        if content is not None:
            self._apply(content)

    def _read_if_touched(self) -> bytes | None:
        """Return the content if it has changed since the last time."""
        status = os.stat(self.path)  # noqa: PTH116 - it shows which fields are compared
        # Taken before reading, so that a change in between is noticed at the next check.
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return None
        content = self.path.read_bytes()
        digest = hashlib.sha256(content).digest()
        self._stamp = stamp
        if digest == self._digest:
            return None
        # Stored before it is applied, so that a refused content is refused only once.
        self._digest = digest
        return content

    def _apply(self, content: bytes) -> None:
        self._on_change(content)
        self._kept.keep(self.path, content)

    def _offer(self, content: bytes) -> None:
        try:
            self._apply(content)
        except ConfigError as error:
            log.error("%s (the previous content stays in effect)", error)  # noqa: TRY400 - a traceback would add nothing
        except Exception:
            log.exception("%s could not be applied; the previous content stays in effect", self.path)
        else:
            log.info("%s has changed and was reloaded", self.path)
