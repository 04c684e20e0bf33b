"""Which periodic jobs there are: found little by little where there are very many queues, and remembered."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJob, PeriodicJobs, periodic_job

_MOST_KNOWN = 2000
"""Jobs that are remembered; the lookups of a search stay few."""
_LOOKUP = 100


class PeriodicDirectory:
    """Finds periodic jobs.

    A search reads some jobs of each queue, and of very many queues only some, other ones each time. So those that were
    found before and not this time are looked up, which is cheap.

    Args:
        client: client of the server.
    """

    def __init__(self, client: AsyncVerbs) -> None:
        self._client = client
        self._queue_by_job: dict[str, str] = {}
        self._read: set[str] = set()

    async def find(self, queue: str = "") -> PeriodicJobs:
        """Return the periodic jobs of a queue, or of all.

        Raises:
            PinLaterError: the server does not answer.
        """
        names = [queue] if queue else sorted(await self._client.queue_names())
        found = await self._client.periodic_jobs(names)
        self._read.update(set(names) - found.left_out)
        seen = {job.info.descriptor for job in found.jobs}
        missing = [job for job, at in self._queue_by_job.items() if job not in seen and (not queue or at == queue)]
        jobs = [*found.jobs, *await self._look_up(missing)]
        self._remember(jobs, missing)
        jobs.sort(key=lambda job: (not job.failures, job.queue, job.name))
        return PeriodicJobs(jobs, found.left_out - self._read)

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
