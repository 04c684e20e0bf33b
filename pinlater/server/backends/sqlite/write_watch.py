"""Tests whether the store can be written after a transaction has failed: its disk may be full."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pinlater.errors import ServiceError

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0


class WriteWatch:
    """Whether the store can be written. After a failed transaction, it writes a test transaction until one succeeds.

    Args:
        write: changes something in the store, and undoes it.
        now_ms: the clock of the store.

    Attributes:
        fault: why nothing can be written; None if it can.
        since_ms: how long it has been so, epoch milliseconds.
    """

    def __init__(self, write: Callable[[], Awaitable[object]], now_ms: Callable[[], int]) -> None:
        self._write = write
        self._now_ms = now_ms
        self._is_requested = asyncio.Event()
        self.fault: str | None = None
        self.since_ms = now_ms()

    def request_test(self) -> None:
        """Request a test: a transaction has failed, for a reason of its own or of the disk."""
        self._is_requested.set()

    async def run(self) -> None:
        """Test when requested, then once a second as long as it fails, until cancelled."""
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
