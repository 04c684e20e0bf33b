"""Cached job counts of the queues."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypedDict

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.errors import QueueNotFound
from pinlater.model.jobs import missing_shards
from pinlater.model.state import JobState

_MIN_TTL_SECONDS = 2.0
_COST_FACTOR = 20
"""With this factor, counting takes at most a twentieth of the time, however many users there are."""
_MOST_KEPT = 2000

_PATIENCE_SECONDS = 0.03
"""How long a page waits for new counts if it has old ones to show."""
_OLD_SECONDS = 60.0
"""Older counts are shown only if new ones take longer than ``_LONG_PATIENCE_SECONDS``."""
_LONG_PATIENCE_SECONDS = 2.0

_QUIET_SECONDS = 30.0
"""How long a queue in which nothing happens is not counted again."""


class StateFilter(TypedDict, total=False):
    """Arguments of ``count`` and ``scan`` that select the jobs of a display state."""

    future: bool
    retrying: bool


class DisplayState(NamedTuple):
    """State of jobs as the pages show it: PENDING is split into pending, retrying and scheduled.

    Attributes:
        name: name in pages and URLs.
        state: stored state of the jobs.
        filters: arguments of ``count`` and ``scan`` besides the state.
    """

    name: str
    state: JobState
    filters: StateFilter = StateFilter()


DISPLAY_STATES = (
    DisplayState("pending", JobState.PENDING, {"future": False, "retrying": False}),
    DisplayState("retrying", JobState.PENDING, {"retrying": True}),
    DisplayState("scheduled", JobState.PENDING, {"future": True, "retrying": False}),
    DisplayState("running", JobState.IN_PROGRESS),
    DisplayState("failed", JobState.FAILED),
    DisplayState("succeeded", JobState.SUCCEEDED),
)
DISPLAY_STATES_BY_NAME = {display_state.name: display_state for display_state in DISPLAY_STATES}
OPEN_STATES = DISPLAY_STATES[:-1]
"""Without the succeeded jobs: there may be very many, and operators have nothing to do about them."""


class StateCounts(NamedTuple):
    """Number of jobs of one queue by display state; the server counts up to its ``COUNT_LIMIT``."""

    pending: int = 0
    retrying: int = 0
    scheduled: int = 0
    running: int = 0
    failed: int = 0
    succeeded: int = 0

    @property
    def all(self) -> int:
        """Number of all jobs."""
        return sum(self)


class _Key(NamedTuple):
    """What is counted: the jobs of a queue, of one or all of its priorities, in all states or the open ones."""

    queue: str
    priority: int | None
    is_open: bool = False


class _KnownCounts(NamedTuple):
    counted: float
    good_until: float
    counts: StateCounts
    signs: Hashable


class CountCache:
    """Counts jobs for all pages, one queue at a time.

    Aged counts are shown while new ones are made, so that no page waits for a store with many jobs.

    Args:
        client: client of the server.
        clock: monotonic seconds.
        signs: returns a value that changes when something happens in a queue; None if that is unknown.

    Attributes:
        missing_shards: shards that did not answer the last count, so that it was without their jobs.
    """

    def __init__(
        self,
        client: AsyncVerbs,
        clock: Callable[[], float] = time.monotonic,
        signs: Callable[[str], Hashable] = lambda _: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._signs = signs
        self._turn = asyncio.Lock()
        self._known: OrderedDict[_Key, _KnownCounts] = OrderedDict()
        self._counting: set[asyncio.Task[None]] = set()
        self._rests_until = 0.0  # after counting many queues
        self.missing_shards: tuple[str, ...] = ()

    async def get(
        self, queues: Iterable[str], *, is_open: bool = False, is_urgent: bool = False
    ) -> dict[str, StateCounts]:
        """Return the counts of queues, without queues that do not exist.

        Args:
            queues: names of queues.
            is_open: count only open jobs.
            is_urgent: leave out queues that are not counted at once; the caller has other numbers to show.

        Raises:
            PinLaterError: the server does not answer.
        """
        keys = [_Key(queue, None, is_open) for queue in queues]
        return {key.queue: counts for key, counts in (await self._get(keys, is_urgent=is_urgent)).items()}

    async def get_by_priority(self, queue: str, priorities: Iterable[int]) -> list[tuple[int, StateCounts]]:
        """Return the counts of a queue by priority; raises as ``get``."""
        found = await self._get([_Key(queue, priority) for priority in priorities])
        return [(key.priority, counts) for key, counts in found.items() if key.priority is not None]

    def forget(self, queue: str) -> None:
        """Drop the counts of a changed queue."""
        for key in [key for key in self._known if key.queue == queue]:
            del self._known[key]

    async def close(self) -> None:
        """Stop counting."""
        for task in self._counting:
            task.cancel()
        await asyncio.gather(*self._counting, return_exceptions=True)

    async def _get(self, keys: Sequence[_Key], *, is_urgent: bool = False) -> dict[_Key, StateCounts]:
        now = self._clock()
        aged = [key for key in keys if self._has_aged(key, now)]
        can_show = is_urgent or all(
            key in self._known and now - self._known[key].counted < _OLD_SECONDS for key in aged
        )
        if aged and not (can_show and aged[0].is_open and now < self._rests_until):
            with contextlib.suppress(TimeoutError):
                patience = _PATIENCE_SECONDS if can_show else _LONG_PATIENCE_SECONDS
                await asyncio.wait_for(asyncio.shield(self._start(aged)), patience)
        return {key: self._known[key].counts for key in keys if key in self._known}

    def _has_aged(self, key: _Key, now: float) -> bool:
        known = self._known.get(key)
        if known is None or now < known.good_until:
            return known is None
        signs = self._signs(key.queue)
        return signs is None or signs != known.signs or now - known.counted >= _QUIET_SECONDS

    def _start(self, keys: Sequence[_Key]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._count_all(keys))
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)
        return task

    async def _count_all(self, keys: Iterable[_Key]) -> None:
        """Count one key per turn, so that the page of one queue does not wait for the counts of hundreds of others."""
        counted: list[_Key] = []
        cost = 0.0
        try:
            for key in keys:
                async with self._turn:
                    started = self._clock()
                    if await self._count_one(key):
                        counted.append(key)
                    cost += self._clock() - started
        finally:
            now, rest = self._clock(), cost * _COST_FACTOR
            self._rests_until = max(self._rests_until, now + rest)
            for key in counted:
                if key in self._known:
                    good_until = now + max(_MIN_TTL_SECONDS, rest)
                    self._known[key] = self._known[key]._replace(good_until=good_until)

    async def _count_one(self, key: _Key) -> bool:
        """Count, unless another task has done so meanwhile; return whether it was necessary and succeeded."""
        known, now = self._known.get(key), self._clock()
        if known is not None and now < known.good_until:
            return False
        signs = self._signs(key.queue)
        try:
            states = OPEN_STATES if key.is_open else DISPLAY_STATES
            counts = StateCounts(*[await self._count(key, display_state) for display_state in states])
        except QueueNotFound:
            self.forget(key.queue)
            return False
        self._known[key] = _KnownCounts(now, math.inf, counts, signs)  # ``_count_all`` sets when it ages
        self._known.move_to_end(key)
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return True

    async def _count(self, key: _Key, display_state: DisplayState) -> int:
        count = await self._client.count(key.queue, display_state.state, priority=key.priority, **display_state.filters)
        self.missing_shards = missing_shards(count)
        return count
