"""Checks once a second that the store's files exist; without them, new jobs are refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pinlater.errors import UnknownError
from pinlater.server.backends.sqlite.file_check import FileCheck

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0


class FileWatch:
    """Watches whether the files of the store are intact.

    Args:
        check: checks the files.
        now_ms: the clock of the store.

    Attributes:
        fault: what is wrong with the files; None if nothing is.
        since_ms: since when ``fault`` has been so, epoch milliseconds.
    """

    def __init__(self, check: FileCheck, now_ms: Callable[[], int]) -> None:
        self._check = check
        self._now_ms = now_ms
        self.fault: str | None = None
        self.since_ms = now_ms()

    async def run(self) -> None:
        """Check once a second until cancelled."""
        while True:
            fault = await asyncio.to_thread(self._check.look)
            if fault != self.fault:
                self.fault, self.since_ms = fault, self._now_ms()
                if fault is None:
                    log.warning("the files of the store are there again; new jobs are taken")
                else:
                    log.error("no new jobs are taken: %s", fault)
            await asyncio.sleep(_PAUSE_SECONDS)

    def admit(self) -> None:
        """Check that new jobs may be stored.

        Raises:
            UnknownError: they would be lost.
        """
        if self.fault is not None:
            raise UnknownError(f"nothing was changed: {self.fault}")
