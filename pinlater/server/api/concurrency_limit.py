"""Work that is dear on purpose, or by nature: one at a time, few wait, others are refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pinlater.errors import NoHealthyShards


class Turnstile:
    """Lets one caller in after the other.

    Without an end to the queue in front of it, whoever asks often enough would fill the places of all calls with calls
    that wait here.

    Args:
        work: what is done behind it, for the message.
        most_waiting: callers that may wait for their turn.
    """

    def __init__(self, work: str, most_waiting: int) -> None:
        self._work = work
        self._most_waiting = most_waiting
        self._turn = asyncio.Lock()
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Hold the turn.

        Raises:
            NoHealthyShards: too many wait. The code is one that clients of the original retry, too.
        """
        if self._waiting >= self._most_waiting:
            raise NoHealthyShards(f"too many calls wait for {self._work}, one after the other; try again later")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turn.release()
