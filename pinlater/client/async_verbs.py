"""What clients ask of a service: its calls, and what is made of several, such as all pages of a scan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from pinlater.client.async_service_calls import AsyncServiceCalls
from pinlater.client.fair_scan import FairScan, Part, fair_scan
from pinlater.client.moving import Move, run_steps_async
from pinlater.client.periodic import PeriodicJob, PeriodicJobs, find_periodic, pause, resume
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
        """Yield all jobs in a state, page after page; those that change meanwhile may be missed."""
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
        """Return jobs of several queues in a state, up to ``limit`` in all: of each queue those due latest.

        Deep queues do not hide the others: each gives the same number, as far as it has so many.
        """
        parts = [Part(queue, state) for queue in queues]
        return await run_steps_async(fair_scan(self._calls, parts, limit), self._execute)

    async def periodic_jobs(self, queues: Iterable[str] = ()) -> PeriodicJobs:
        """Return the periodic jobs of some queues, or of all: when each runs next, and whether its last run failed.

        They are found among the waiting and running jobs, of which 5,000 are looked at, fairly over the queues.
        """
        names = list(queues) or sorted(await self.queue_names())
        return await run_steps_async(find_periodic(self._calls, names), self._execute)

    async def pause_periodic(self, job: PeriodicJob) -> bool:
        """Pause a periodic job until it is resumed, whatever restarts or is deployed; False if it runs or has gone.

        It is put off to the year 9999. A job of another schedule of the class is another job, which is not paused.

        Raises:
            ProtocolError: the server is of an older version.
        """
        return await self._execute(pause(self._calls, job)) > 0

    async def resume_periodic(self, job: PeriodicJob) -> bool:
        """Let a paused periodic job run again; return False if it was not paused.

        It goes on with the tick that it was paused before: if that was missed, it runs now, once for all missed ticks.

        Raises:
            ProtocolError: the server is of an older version.
        """
        return job.is_paused and await self._execute(resume(self._calls, job)) > 0

    async def move_these(self, move: Move, descriptors: Sequence[str]) -> int:
        """Move the given jobs as ``move`` says, in this order; return how many were moved, which it counts, too.

        Raises:
            QueueNotFound: there is no queue to move them to, and the server has ``QUEUE_AUTO_CREATE=false``.
            ProtocolError: the server is one of the original, which cannot do it.
        """
        return await run_steps_async(move.steps(self._calls, descriptors), self._execute)
