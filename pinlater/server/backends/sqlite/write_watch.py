"""Tests whether the store can be written after a transaction has failed: its disk may be full."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pinlater.errors import ServiceError

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0


class WriteWatch:
    """Watches whether the store can be written: after a failed transaction, it writes tests until one succeeds.

    Args:
        write: writes a transaction that leaves the store as it was.
        now_ms: the clock of the store.

    Attributes:
        fault: why nothing can be written; None if the store can be written.
        since_ms: since when ``fault`` has been set or None, epoch milliseconds.
    """

    def __init__(self, write: Callable[[], Awaitable[object]], now_ms: Callable[[], int]) -> None:
        self._write = write
        self._now_ms = now_ms
        self._is_requested = asyncio.Event()
        self.fault: str | None = None
        self.since_ms = now_ms()

    def request_test(self) -> None:
        """Request a test, since a transaction has failed, whether by its own fault or the disk's."""
        self._is_requested.set()

    async def run(self) -> None:
        """Test when requested, and then once a second until a test succeeds; run until cancelled."""
        while True:
            await self._is_requested.wait()
            self._is_requested.clear()
            fault = await self._try()
            if (fault is None) != (self.fault is None):
                self.since_ms = self._now_ms()
                log.warning("the store can be written again" if fault is None else fault)
            self.fault = fault
            if fault is not None:
                self._is_requested.set()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _try(self) -> str | None:
        try:
            await self._write()
        except ServiceError as error:
            return f"the store cannot be written: {error}"
        return None
