"""Directory of periodic jobs: found in steps if there are very many queues, and remembered."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJob, PeriodicJobs, periodic_job

_MOST_KNOWN = 2000
"""Jobs that are remembered, so that a search needs few lookups."""
_LOOKUP = 100
_SEARCHED_AGAIN = 50
"""Queues that are searched again at a time. Each takes several calls, which delay those of the workers."""
_REST_FACTOR = 50
"""Rest after a search for this many times as long as it took: searching takes at most a fiftieth of the time."""


class PeriodicDirectory:
    """Finds periodic jobs.

    A search reads some jobs of each queue. If there are many queues, it reads the new ones, and in turn some of the
    others. Jobs that were found earlier but not this time are looked up, which is cheap.

    Args:
        client: client of the server.
        clock: monotonic seconds.
    """

    def __init__(self, client: AsyncVerbs, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._rests_until = clock()
        self._queue_by_job: dict[str, str] = {}
        self._searched: dict[str, None] = {}  # queues, least recently searched first
        self._read: set[str] = set()  # those that have been read completely at least once

    async def find(self, queue: str = "") -> PeriodicJobs:
        """Return the periodic jobs of a queue, or of all.

        Raises:
            PinLaterError: the server does not answer.
        """
        names = {queue} if queue else await self._client.queue_names()
        if not queue:
            self._forget_deleted(names)
        started = self._clock()
        searched = [queue] if queue else self._next_of(names, started)
        found = await self._client.periodic_jobs(searched) if searched else PeriodicJobs([], set())
        if searched and not queue:
            self._rests_until = self._clock() + _REST_FACTOR * (self._clock() - started)
        for name in searched:
            self._searched.pop(name, None)
            self._searched[name] = None
        self._read.update(set(searched) - found.left_out)
        seen = {job.info.descriptor for job in found.jobs}
        missing = [job for job, at in self._queue_by_job.items() if job not in seen and (not queue or at == queue)]
        jobs = [*found.jobs, *await self._look_up(missing)]
        self._remember(jobs, missing)
        jobs.sort(key=lambda job: (not job.failures, job.queue, job.name))
        return PeriodicJobs(jobs, self._searched.keys() & names - self._read)

    def _forget_deleted(self, names: Collection[str]) -> None:
        """Forget queues that are not among the existing ones; if one is created again, it is new."""
        for gone in [name for name in self._searched if name not in names]:
            del self._searched[gone]
            self._read.discard(gone)

    def _next_of(self, names: Collection[str], now: float) -> list[str]:
        """Return which of the existing queues to search now."""
        new = [name for name in names if name not in self._searched]
        again = list(self._searched) if now >= self._rests_until else []
        return new + again[:_SEARCHED_AGAIN]

    async def _look_up(self, descriptors: Sequence[str]) -> list[PeriodicJob]:
        found = []
        for start in range(0, len(descriptors), _LOOKUP):
            known = await self._client.lookup(descriptors[start : start + _LOOKUP], include_body=True)
            found += [periodic_job(self._queue_by_job[name], info) for name, info in known.items()]
        return [job for job in found if job is not None]

    def _remember(self, jobs: Sequence[PeriodicJob], missing: Sequence[str]) -> None:
        for descriptor in missing:
            del self._queue_by_job[descriptor]
        for job in jobs:
            if len(self._queue_by_job) < _MOST_KNOWN:
                self._queue_by_job[job.info.descriptor] = job.queue


async def current(client: AsyncVerbs, jobs: Sequence[PeriodicJob]) -> list[PeriodicJob]:
    """Return jobs as they are now, since found ones are cached for longer; those that are gone are left out."""
    names = [job.info.descriptor for job in jobs]
    known = await client.lookup(names, include_body=True) if names else {}
    found = [periodic_job(job.queue, known[name]) for job, name in zip(jobs, names, strict=True) if name in known]
    return [job for job in found if job is not None]
