"""Rate-limit a queue over several servers with a token bucket in the store, fetching tokens as needed.

All servers together keep to the rate, whichever of them has workers; a server without workers takes no share of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from pinlater.errors import ServiceError
from pinlater.server.backends.token_bucket import AcquireTokens
from pinlater.server.limits.rate_limits import Bucket

_SPARE_SECONDS = 0.02
"""Tokens for this much time are fetched in advance, so that not every small dequeue asks the store."""

_SHORTEST_PAUSE_SECONDS = 0.02
"""Shortest pause after the store had too few tokens, so that waiting dequeues do not query it all the time."""

_LONGEST_PAUSE_SECONDS = 1.0
"""Longest pause, however low the rate: other servers give tokens back."""


class LeasedBucket(Bucket):
    """Holds a few tokens of one queue, and fetches more from the store.

    Args:
        acquire: takes tokens from the store.
        queue: the queue to limit.
        rate: tokens per second, over all servers.
        now: the current time, monotonic seconds.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, acquire: AcquireTokens, queue: str, rate: float, now: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self._acquire = acquire
        self._clock = clock
        self._queue = queue
        self._held = 0
        self._wanted = 0
        self._next_at = now
        self._fetching: asyncio.Task[None] | None = None
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def _spare(self) -> int:
        return int(self.rate * _SPARE_SECONDS)

    def change_rate(self, rate: float, now: float) -> None:
        self.rate = rate
        self._held = min(self._held, self._spare)
        self._next_at = now

    async def acquire(self, wanted: int, now: float) -> int:
        self._wanted += wanted
        try:
            while self._held < wanted and self._next_at <= now:
                await self._fetch()
        finally:
            self._wanted -= wanted
        taken = min(wanted, self._held)
        self._held -= taken
        return taken

    async def _fetch(self) -> None:
        """Fetch tokens for all waiting dequeues at once, or wait for the fetch in progress."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_from_store())
            self._fetching.add_done_callback(lambda done: done.cancelled() or done.exception())  # in case nobody waits
        await asyncio.shield(self._fetching)  # a cancelled waiter leaves the tokens to the others

    async def _fetch_from_store(self) -> None:
        try:
            if self._returning:  # returned tokens must be back before the next fetch
                await asyncio.wait(self._returning)
            count = self._wanted - self._held + self._spare
            tokens = await self._acquire(self._queue, self.rate, count)
        finally:
            self._fetching = None
        self._held += tokens.taken
        if tokens.taken < count:
            pause = min(max(tokens.next_ms / 1000, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
            self._next_at = self._clock() + pause

    def give_back(self, count: int, now: float) -> None:
        self._held += count
        surplus = self._held - self._spare
        if surplus > 0:
            self._held -= surplus
            self._next_at = now
            task = asyncio.create_task(self._return(surplus))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _return(self, count: int) -> None:
        with suppress(ServiceError):  # at most one second's worth of tokens is lost
            await self._acquire(self._queue, self.rate, -count)

    def seconds_until_next(self, now: float) -> float:
        return 0.0 if self._held else max(0.0, self._next_at - now)
