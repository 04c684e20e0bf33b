"""The calls of the service, and methods that combine several of them, such as a scan of all pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from pinlater.client.async_service_calls import AsyncServiceCalls
from pinlater.client.fair_scan import FairScan, Part, fair_scan
from pinlater.client.moving import Move
from pinlater.client.periodic import PAUSED_UNTIL_MS, PeriodicJob, PeriodicJobs, find_periodic
from pinlater.client.plans import run_plan_async
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState


class AsyncVerbs(AsyncServiceCalls):
    """The calls of the service, and methods that make several of them."""

    async def scan_all(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        page_size: int = 100,
        body_regex: str | None = None,
        retrying: bool | None = None,
        failure_group: int | None = None,
        oldest_first: bool = False,
    ) -> AsyncIterator[JobInfo]:
        """Yield all jobs in a state, page by page; jobs that change in the meantime may be missed."""
        continuation = None
        while True:
            page = await self.scan(
                queue,
                state,
                priority=priority,
                future=future,
                limit=page_size,
                body_regex=body_regex,
                continuation=continuation,
                retrying=retrying,
                failure_group=failure_group,
                oldest_first=oldest_first,
            )
            for info in page.jobs:
                yield info
            continuation = page.continuation
            if continuation is None:
                return

    async def scan_fairly(self, queues: Iterable[str], state: JobState, *, limit: int = 5000) -> FairScan:
        """Return up to ``limit`` jobs in a state from several queues: from each queue those that are due latest.

        Deep queues do not crowd out the others: each contributes the same number of jobs, if it has as many.
        """
        parts = [Part(queue, state) for queue in queues]
        return await run_plan_async(fair_scan(self._calls, parts, limit), self._execute)

    async def periodic_jobs(self, queues: Iterable[str] = ()) -> PeriodicJobs:
        """Return the periodic jobs of some queues, or of all: when each runs next, and whether its last run failed.

        They are searched for among the pending and running jobs; up to 5,000 are read, with a fair share of each queue.
        """
        names = list(queues) or sorted(await self.queue_names())
        return await run_plan_async(find_periodic(self._calls, names), self._execute)

    async def pause_periodic(self, job: PeriodicJob) -> bool:
        """Pause a periodic job until it is resumed, across restarts and deployments; return whether that changed it.

        One that runs now, is paused already or is gone does not change. A paused job is rescheduled to the year 9999.
        If its class gets another schedule, that is a new job, which is not paused.

        Raises:
            ProtocolError: the server is of an older version.
        """
        return await self.schedule(job.queue, [job.info.descriptor], PAUSED_UNTIL_MS) > 0

    async def resume_periodic(self, job: PeriodicJob) -> bool:
        """Let a paused periodic job run again; return False if it was not paused.

        It continues with the tick before which it was paused: if that is past, it runs now, once for all missed ticks.

        Raises:
            ProtocolError: the server is of an older version.
        """
        return job.is_paused and await self.schedule(job.queue, [job.info.descriptor], job.due_ms) > 0

    async def move_these(self, move: Move, descriptors: Sequence[str]) -> int:
        """Move the given jobs in this order, as ``move`` says; return how many were moved. ``move`` counts them, too.

        Raises:
            QueueNotFound: the target queue does not exist, and the server has ``QUEUE_AUTO_CREATE=false``.
            ProtocolError: the server is one of the original, which cannot move jobs.
        """
        return await run_plan_async(move.steps(self._calls, descriptors), self._execute)
