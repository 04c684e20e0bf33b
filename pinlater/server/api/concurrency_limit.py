"""Run expensive work one at a time: a few callers wait, the others are refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pinlater.errors import NoHealthyShards


class ConcurrencyLimit:
    """Runs one caller at a time.

    The number of waiting callers is limited, so that calls which wait here cannot take all slots of the server.

    Args:
        work: name of the work, for the error.
        most_waiting: how many callers may wait.
    """

    def __init__(self, work: str, most_waiting: int) -> None:
        self._work = work
        self._most_waiting = most_waiting
        self._lock = asyncio.Lock()
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for the slot and hold it.

        Raises:
            NoHealthyShards: too many callers wait. Clients of the original service retry this code, too.
        """
        if self._waiting >= self._most_waiting:
            raise NoHealthyShards(f"too many calls wait for {self._work}, which runs one at a time; try again later")
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._lock.release()
