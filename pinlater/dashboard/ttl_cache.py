"""Cache for expensive answers, which all requests share for a while."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pinlater.errors import PinLaterError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MIN_TTL_SECONDS = 2.0
_COST_FACTOR = 10
_MOST_KEPT = 20
_NONE = (0.0, None, 0.0)


class TtlCache(Generic[K, T]):
    """Loads one answer at a time and caches it, usually for ten times as long as loading took.

    Args:
        load: returns the answer for a key.
        clock: monotonic seconds.
        stale_seconds: how long after that the answer is still returned while a new one is loaded in the background.
        cost_factor: how many times as long as loading took an answer is cached.
    """

    def __init__(
        self,
        load: Callable[[K], Awaitable[T]],
        clock: Callable[[], float] = time.monotonic,
        *,
        stale_seconds: float = 0.0,
        cost_factor: float = _COST_FACTOR,
    ) -> None:
        self._load = load
        self._clock = clock
        self._stale_seconds = stale_seconds
        self._cost_factor = cost_factor
        self._turn = asyncio.Lock()
        self._known: OrderedDict[K, tuple[float, T, float]] = OrderedDict()  # good until, answer, seconds to load
        self._loading: dict[K, asyncio.Task[None]] = {}
        self._failed: dict[K, PinLaterError] = {}

    async def get(self, key: K) -> T:
        """Return the answer for a key, loading it if need be; raises what ``load`` raises."""
        until, known, _ = self._known.get(key, _NONE)
        if known is not None and until <= self._clock() < until + self._stale_seconds:
            if key not in self._loading:
                self._loading[key] = asyncio.create_task(self._reload(key))
            return known
        return await self.get_fresh(key)

    async def get_within(self, key: K, seconds: float, *, seconds_beside_old: float = 0.0) -> T | None:
        """Return the answer for a key, even an old one; None if loading takes longer and goes on in the background.

        Args:
            key: key of the answer.
            seconds: how long to wait if there is no answer, or only one that is too old.
            seconds_beside_old: how long to wait for a new answer if there is an old one; if the old one took longer to
                load, there is no wait.

        Raises:
            PinLaterError: it could not be loaded.
        """
        until, known, took = self._known.get(key, _NONE)
        if known is None or self._clock() >= until:
            if key not in self._loading:
                self._loading[key] = asyncio.create_task(self._reload(key))
            if known is None or self._clock() >= until + self._stale_seconds:
                await asyncio.wait({self._loading[key]}, timeout=seconds)
            elif took <= seconds_beside_old:
                await asyncio.wait({self._loading[key]}, timeout=seconds_beside_old)
        if key in self._failed:
            raise self._failed[key]
        return self._known.get(key, _NONE)[1]

    async def get_fresh(self, key: K) -> T:
        """Return the answer for a key, never a stale one; raises what ``load`` raises."""
        async with self._turn:
            until, known, _ = self._known.get(key, _NONE)
            if known is not None and self._clock() < until:
                return known
            started = self._clock()
            answer = await self._load(key)
            now = self._clock()
            took = now - started
            self._known[key] = now + max(_MIN_TTL_SECONDS, took * self._cost_factor), answer, took
            self._known.move_to_end(key)
            self._failed.pop(key, None)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return answer

    async def _reload(self, key: K) -> None:
        try:
            await self.get_fresh(key)
        except PinLaterError as error:  # the next ``get_within`` raises it
            log.debug("cannot load what the pages show: %s", error)
            self._known.pop(key, None)
            self._failed[key] = error
            if len(self._failed) > _MOST_KEPT:
                del self._failed[next(iter(self._failed))]
        finally:
            del self._loading[key]

    def forget(self) -> None:
        """Drop all answers, after a change."""
        self._known.clear()

    async def close(self) -> None:
        """Cancel loading in the background."""
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
