"""The calls of the service as methods of a client, one per call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

from pinlater.client.fair_scan import FairScan, Part, fair_scan
from pinlater.client.moving import Move, run_steps_async
from pinlater.client.periodic import PeriodicJobs, find_periodic
from pinlater.model.attempts import Ack, Acks, Checkpoint, ClaimedJob
from pinlater.model.jobs import JobInfo, NewJob, Page
from pinlater.model.queues import QueueSettings
from pinlater.model.state import JobState
from pinlater.model.workers import WorkerReport
from pinlater.protocol.operations import Call, Calls

T = TypeVar("T")


class AsyncVerbs(ABC):
    """One method per call of the wire contract.

    All of them raise ``CallError`` when no answer comes, and ``ServiceError`` when the server refuses; which
    of its subclasses, the server's rules say (``QueueNotFound`` from all that name a queue).
    """

    _calls: Calls

    @abstractmethod
    async def _execute(self, call: Call[T]) -> T:
        """Carry a call out."""

    async def create_queue(self, name: str) -> None:
        """Create a queue; nothing happens if it is there.

        Raises:
            QueueNameInvalid: the name has other characters than letters, digits and underscore.
            QueueNameTooLong: no store could keep it.
        """
        await self._execute(self._calls.create_queue(name))

    async def delete_queue(self, name: str, password: str) -> None:
        """Delete a queue and all its jobs; nothing happens if there is none.

        Raises:
            PasswordInvalid: it is not the server's admin password, or the server has none.
        """
        await self._execute(self._calls.delete_queue(name, password))

    async def queue_names(self) -> set[str]:
        """Return the names of all queues."""
        return await self._execute(self._calls.queue_names())

    async def queue_settings(self) -> dict[str, QueueSettings]:
        """Return what holds back the jobs of each queue.

        Raises:
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return await self._execute(self._calls.queue_settings())

    async def change_queue(
        self,
        name: str,
        *,
        paused: bool | None = None,
        jobs_per_second: float | None = None,
        max_running: int | None = None,
    ) -> None:
        """Pause or resume a queue, or limit it; all servers of the store heed it within a second.

        Args:
            name: the queue.
            paused: whether nothing is to be handed out; None leaves it as it is.
            jobs_per_second: most jobs handed out a second; 0 takes the limit away, None leaves it as it is.
            max_running: most jobs claimed at once; likewise.

        Raises:
            ProtocolError: as of ``queue_settings``.
        """
        await self._execute(
            self._calls.change_queue(name, paused=paused, jobs_per_second=jobs_per_second, max_running=max_running)
        )

    async def oldest_due(self, queues: Iterable[str] = ()) -> dict[str, int]:
        """Return since when the job is due that has been so for longest, by queue, in epoch milliseconds.

        Queues with nothing due are left out, and those that are not there; paused ones are not.

        Args:
            queues: names of queues; none: all queues.

        Raises:
            ProtocolError: as of ``queue_settings``.
        """
        return await self._execute(self._calls.oldest_due(queues))

    async def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> list[str]:
        """Store jobs, all or none; return their descriptors in the same order.

        In the place of a job that is not stored for its ``unique`` stands the descriptor of the one that is there.
        When the answer is lost, the call is repeated: the jobs may then be stored twice.

        Raises:
            QueueNotFound: it is not there, and the server has ``QUEUE_AUTO_CREATE=false``; create it first.
            PriorityNotSupported: a priority is outside the server's levels.
            EnqueueRejected: a body is too large.
        """
        return await self._execute(self._calls.enqueue_jobs(queue, jobs))

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        *,
        wait: float = 0.0,
        lease: float | None = None,
        dry_run: bool = False,
        acks: Acks | None = None,
        other_queues: Sequence[str] = (),
    ) -> list[ClaimedJob]:
        """Claim jobs that are due. Never repeated by itself when the answer is lost.

        Args:
            queue: where to take them.
            limit: at most so many.
            wait: seconds to wait for a job when there is none; the call's time-out is so much longer.
            lease: seconds until an unacknowledged job is given to somebody else; None leaves it to the server.
            dry_run: look, do not claim.
            acks: acks that ride along.
            other_queues: queues to ask, in this order, when ``queue`` has none.

        Raises:
            DequeueRateLimited: the queue is paused or has given out what it may for now.
        """
        return await self._execute(
            self._calls.dequeue_jobs(
                queue, limit, wait=wait, lease=lease, dry_run=dry_run, acks=acks, other_queues=other_queues
            )
        )

    async def ack(self, queue: str, succeeded: Sequence[Ack] = (), failed: Sequence[Ack] = ()) -> None:
        """Say how claimed jobs ended. Jobs that are claimed no longer, or otherwise, are left alone."""
        await self._execute(self._calls.ack(queue, succeeded, failed))

    async def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> None:
        """Save progress of claimed jobs, renew their claims, or give them back.

        A body that is no UTF-8 text is kept by our server; a server of the original leaves the old body.
        """
        await self._execute(self._calls.checkpoint(queue, checkpoints))

    async def lookup(self, descriptors: Iterable[str], *, include_body: bool = False) -> dict[str, JobInfo]:
        """Return what is known of jobs, by descriptor; unknown ones are left out.

        Raises:
            UnknownError: a descriptor is malformed.
        """
        return await self._execute(self._calls.lookup(descriptors, include_body=include_body))

    async def count(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        body_regex: str | None = None,
    ) -> int:
        """Return the number of jobs in a state.

        Args:
            queue: whose jobs.
            state: which state.
            priority: only of this level; None is all.
            future: of PENDING, those not due yet instead of those due.
            body_regex: only jobs with a match in their body.
        """
        return await self._execute(
            self._calls.count(queue, state, priority=priority, future=future, body_regex=body_regex)
        )

    async def scan(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        limit: int = 100,
        body_regex: str | None = None,
        continuation: str | None = None,
    ) -> Page:
        """Return jobs in a state, up to ``limit``, and where to go on; arguments as in ``count``.

        Raises:
            ContinuationInvalid: ``continuation`` comes from no scan of this kind.
        """
        return await self._execute(
            self._calls.scan(
                queue,
                state,
                priority=priority,
                future=future,
                limit=limit,
                body_regex=body_regex,
                continuation=continuation,
            )
        )

    async def scan_all(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        page_size: int = 100,
        body_regex: str | None = None,
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

    async def retry_failed(
        self, queue: str, *, priority: int = 1, attempts: int = 1, run_after_ms: int | None = None, limit: int = 1000
    ) -> int:
        """Make FAILED jobs of one priority level PENDING again; return how many.

        Args:
            queue: whose jobs.
            priority: of this level.
            attempts: attempts they get.
            run_after_ms: epoch milliseconds before which they do not run; None is now.
            limit: at most so many.
        """
        return await self._execute(
            self._calls.retry_failed(
                queue, priority=priority, attempts=attempts, run_after_ms=run_after_ms, limit=limit
            )
        )

    async def retry_these(
        self, queue: str, descriptors: Iterable[str], *, attempts: int = 1, run_after_ms: int | None = None
    ) -> int:
        """Make those of the given jobs that are FAILED PENDING again; return how many.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
            attempts: attempts they get.
            run_after_ms: epoch milliseconds before which they do not run; None is now.
        """
        return await self._execute(
            self._calls.retry_these(queue, descriptors, attempts=attempts, run_after_ms=run_after_ms)
        )

    async def run_now(self, queue: str, descriptors: Iterable[str]) -> int:
        """Make those of the given jobs due now that are PENDING and not due yet; return how many.

        These are jobs that were enqueued for later, sleep, or wait for their next attempt; whether they have begun or
        not, they go on from where they are, with the attempts that they have left.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.

        Raises:
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return await self._execute(self._calls.run_now(queue, descriptors))

    async def delete_these(self, queue: str, descriptors: Iterable[str], state: JobState) -> int:
        """Delete those of the given jobs that are in ``state``; return how many. All are of one queue."""
        return await self._execute(self._calls.delete_these(queue, descriptors, state))

    async def delete_jobs(
        self, queue: str, state: JobState, *, priority: int = 1, body_regex: str | None = None, limit: int = 1000
    ) -> int:
        """Delete jobs of one state and priority level, up to ``limit``; return how many."""
        return await self._execute(
            self._calls.delete_jobs(queue, state, priority=priority, body_regex=body_regex, limit=limit)
        )

    async def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> list[str]:
        """Store jobs of another store as they are there, with bodies; return their new descriptors.

        Their priorities, attempts, times and statuses are kept. Claimed ones become PENDING, no attempt spent.

        Args:
            queue: where to.
            jobs: as a lookup there described them, bodies included.

        Raises:
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return await self._execute(self._calls.import_jobs(queue, jobs))

    async def move_these(self, move: Move, descriptors: Sequence[str]) -> int:
        """Move the given jobs as ``move`` says, in this order; return how many were moved, which it counts, too.

        Raises:
            QueueNotFound: there is no queue to move them to, and the server has ``QUEUE_AUTO_CREATE=false``.
            ProtocolError: the server is one of the original, which cannot do it.
        """
        return await run_steps_async(move.steps(self._calls, descriptors), self._execute)

    async def release_claims(self, queue: str, source: str) -> int:
        """Give back, no attempt spent, all jobs that ``source`` has claimed; return how many.

        Raises:
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return await self._execute(self._calls.release_claims(queue, source))

    async def report_worker(self, report: WorkerReport, keep: float) -> None:
        """Let everybody see a worker; the report takes the place of the one before.

        Args:
            report: of the worker; ``reported_ms`` is not sent.
            keep: seconds for which it is believed without another one, at most a day; 0: the worker has ended.

        Raises:
            UnknownError: the report is too large or says what cannot be.
            ProtocolError: the server is one of the original, which does not know this call.
        """
        await self._execute(self._calls.report_worker(report, keep))

    async def workers(self) -> list[WorkerReport]:
        """Return what the workers have last reported of themselves, by host; idle ones, too.

        Raises:
            ProtocolError: the server is one of the original, which does not know this call.
        """
        return await self._execute(self._calls.workers())
