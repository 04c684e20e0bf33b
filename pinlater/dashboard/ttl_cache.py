"""Cache for expensive answers, shared by all requests for a while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_MIN_TTL_SECONDS = 2.0
_COST_FACTOR = 10
_MOST_KEPT = 20


class TtlCache(Generic[T]):
    """Loads one answer at a time and caches it for ten times as long as loading took.

    Args:
        load: returns the answer for a key.
        clock: monotonic seconds.
    """

    def __init__(self, load: Callable[[str], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._turn = asyncio.Lock()
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()

    async def get(self, key: str) -> T:
        """Return the answer for a key, loading it if need be; raises what ``load`` raises."""
        async with self._turn:
            until, known = self._known.get(key, (0.0, None))
            if known is not None and self._clock() < until:
                return known
            started = self._clock()
            answer = await self._load(key)
            now = self._clock()
            self._known[key] = (now + max(_MIN_TTL_SECONDS, (now - started) * _COST_FACTOR), answer)
            self._known.move_to_end(key)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return answer

    def forget(self) -> None:
        """Drop all answers, after a change."""
        self._known.clear()
