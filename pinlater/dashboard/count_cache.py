"""How many jobs the queues have, counted no more often than the counting costs little."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.errors import QueueNotFound
from pinlater.model.state import JobState

_FRESH_SECONDS = 2.0
_COST_FACTOR = 20
"""Counting may take a twentieth of the time, however many look on."""
_MOST_KEPT = 500


class Standing(NamedTuple):
    """One of the states that pages speak of: PENDING is two of them.

    Attributes:
        name: in addresses.
        state: of the jobs.
        is_future: of PENDING: not due yet.
    """

    name: str
    state: JobState
    is_future: bool = False


STANDINGS = (
    Standing("pending", JobState.PENDING),
    Standing("scheduled", JobState.PENDING, is_future=True),
    Standing("running", JobState.IN_PROGRESS),
    Standing("failed", JobState.FAILED),
    Standing("succeeded", JobState.SUCCEEDED),
)
BY_NAME = {standing.name: standing for standing in STANDINGS}


class Counts(NamedTuple):
    """Jobs of one queue, by standing; the server counts up to a limit of its own."""

    pending: int = 0
    scheduled: int = 0
    running: int = 0
    failed: int = 0
    succeeded: int = 0

    @property
    def all(self) -> int:
        """All of them."""
        return sum(self)


class Census:
    """Counts for all pages together, one queue after the other.

    Args:
        client: of the server.
        clock: monotonic seconds.
    """

    def __init__(self, client: AsyncVerbs, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._turn = asyncio.Lock()
        self._known: OrderedDict[tuple[str, int | None], tuple[float, Counts]] = OrderedDict()  # -> good until, counts

    async def of(self, queues: Iterable[str]) -> dict[str, Counts]:
        """Return the counts of queues; those that are not there are left out.

        Raises:
            PinLaterError: the server does not answer.
        """
        found = {}
        async with self._turn:
            for queue in queues:
                counts = await self._of_one(queue, None)
                if counts is not None:
                    found[queue] = counts
        return found

    async def by_priority(self, queue: str, priorities: Iterable[int]) -> list[tuple[int, Counts]]:
        """Return the counts of a queue's priorities; errors as ``of``."""
        async with self._turn:
            counted = [(priority, await self._of_one(queue, priority)) for priority in priorities]
        return [(priority, counts) for priority, counts in counted if counts is not None]

    def forget(self, queue: str) -> None:
        """Count a queue anew when it is asked for: it was changed."""
        for key in [key for key in self._known if key[0] == queue]:
            del self._known[key]

    async def _of_one(self, queue: str, priority: int | None) -> Counts | None:
        until, counts = self._known.get((queue, priority), (0.0, None))
        if counts is not None and self._clock() < until:
            return counts
        started = self._clock()
        try:
            counts = Counts(*[await self._count(queue, standing, priority) for standing in STANDINGS])
        except QueueNotFound:
            self.forget(queue)
            return None
        now = self._clock()
        self._known[queue, priority] = (now + max(_FRESH_SECONDS, (now - started) * _COST_FACTOR), counts)
        self._known.move_to_end((queue, priority))
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return counts

    async def _count(self, queue: str, standing: Standing, priority: int | None) -> int:
        return await self._client.count(queue, standing.state, future=standing.is_future, priority=priority)
