"""An answer that is dear to get, shared by all who ask within a while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_SHORTEST_SECONDS = 2.0
_COST_FACTOR = 10
_MOST_KEPT = 20


class Fresh(Generic[T]):
    """Asks one at a time, and keeps each answer ten times as long as it took to get.

    Args:
        ask: returns the answer for a key.
        clock: monotonic seconds.
    """

    def __init__(self, ask: Callable[[str], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._turn = asyncio.Lock()
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()

    async def get(self, key: str) -> T:
        """Return the answer, asking if need be; raises what asking raises."""
        async with self._turn:
            until, known = self._known.get(key, (0.0, None))
            if known is not None and self._clock() < until:
                return known
            started = self._clock()
            answer = await self._ask(key)
            now = self._clock()
            self._known[key] = (now + max(_SHORTEST_SECONDS, (now - started) * _COST_FACTOR), answer)
            self._known.move_to_end(key)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return answer

    def forget(self) -> None:
        """Ask anew next time: something was changed."""
        self._known.clear()
