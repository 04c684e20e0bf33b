"""Cached job counts of the queues."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.errors import QueueNotFound
from pinlater.model.state import JobState

_MIN_TTL_SECONDS = 2.0
_COST_FACTOR = 20
"""Counting takes at most a twentieth of the time, however many users there are."""
_MOST_KEPT = 500


class DisplayState(NamedTuple):
    """State of jobs as the pages show it: PENDING is split into pending and scheduled.

    Attributes:
        name: name in pages and URLs.
        state: stored state of the jobs.
        is_future: whether PENDING jobs are not due yet.
    """

    name: str
    state: JobState
    is_future: bool = False


DISPLAY_STATES = (
    DisplayState("pending", JobState.PENDING),
    DisplayState("scheduled", JobState.PENDING, is_future=True),
    DisplayState("running", JobState.IN_PROGRESS),
    DisplayState("failed", JobState.FAILED),
    DisplayState("succeeded", JobState.SUCCEEDED),
)
DISPLAY_STATES_BY_NAME = {display_state.name: display_state for display_state in DISPLAY_STATES}


class StateCounts(NamedTuple):
    """Number of jobs of one queue by display state; the server counts up to its ``COUNT_LIMIT``."""

    pending: int = 0
    scheduled: int = 0
    running: int = 0
    failed: int = 0
    succeeded: int = 0

    @property
    def all(self) -> int:
        """Number of all jobs."""
        return sum(self)


class CountCache:
    """Counts jobs for all pages, one queue at a time.

    Args:
        client: client of the server.
        clock: monotonic seconds.
    """

    def __init__(self, client: AsyncVerbs, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._turn = asyncio.Lock()
        self._known: OrderedDict[tuple[str, int | None], tuple[float, StateCounts]] = (
            OrderedDict()
        )  # -> good until, counts

    async def get(self, queues: Iterable[str]) -> dict[str, StateCounts]:
        """Return the counts of queues, without queues that do not exist.

        Raises:
            PinLaterError: the server does not answer.
        """
        found = {}
        async with self._turn:
            for queue in queues:
                counts = await self._get_one(queue, None)
                if counts is not None:
                    found[queue] = counts
        return found

    async def get_by_priority(self, queue: str, priorities: Iterable[int]) -> list[tuple[int, StateCounts]]:
        """Return the counts of a queue by priority; raises as ``get``."""
        async with self._turn:
            counted = [(priority, await self._get_one(queue, priority)) for priority in priorities]
        return [(priority, counts) for priority, counts in counted if counts is not None]

    def forget(self, queue: str) -> None:
        """Drop the counts of a changed queue."""
        for key in [key for key in self._known if key[0] == queue]:
            del self._known[key]

    async def _get_one(self, queue: str, priority: int | None) -> StateCounts | None:
        until, counts = self._known.get((queue, priority), (0.0, None))
        if counts is not None and self._clock() < until:
            return counts
        started = self._clock()
        try:
            counts = StateCounts(
                *[await self._count(queue, display_state, priority) for display_state in DISPLAY_STATES]
            )
        except QueueNotFound:
            self.forget(queue)
            return None
        now = self._clock()
        self._known[queue, priority] = (now + max(_MIN_TTL_SECONDS, (now - started) * _COST_FACTOR), counts)
        self._known.move_to_end((queue, priority))
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return counts

    async def _count(self, queue: str, display_state: DisplayState, priority: int | None) -> int:
        return await self._client.count(queue, display_state.state, future=display_state.is_future, priority=priority)
