"""The calls of the service as coroutine methods; what each does is said in ``verbs``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

from pinlater.client.fair_scan import FairScan, Part, fair_scan
from pinlater.client.moving import Move, carry_out_async
from pinlater.client.periodic import PeriodicJobs, find_periodic
from pinlater.model.records import (
    Ack,
    Acks,
    Checkpoint,
    ClaimedJob,
    JobInfo,
    NewJob,
    Page,
    QueueSettings,
    WorkerReport,
)
from pinlater.model.state import JobState
from pinlater.protocol.operations import Call, Calls

T = TypeVar("T")


class AsyncVerbs(ABC):
    """One coroutine method per call of the wire contract; errors as ``Verbs``."""

    _calls: Calls

    @abstractmethod
    async def _execute(self, call: Call[T]) -> T:
        """Carry a call out."""

    async def create_queue(self, name: str) -> None:
        """Do what ``Verbs.create_queue`` does."""
        await self._execute(self._calls.create_queue(name))

    async def delete_queue(self, name: str, password: str) -> None:
        """Do what ``Verbs.delete_queue`` does."""
        await self._execute(self._calls.delete_queue(name, password))

    async def queue_names(self) -> set[str]:
        """Do what ``Verbs.queue_names`` does."""
        return await self._execute(self._calls.queue_names())

    async def queue_settings(self) -> dict[str, QueueSettings]:
        """Do what ``Verbs.queue_settings`` does."""
        return await self._execute(self._calls.queue_settings())

    async def change_queue(
        self,
        name: str,
        *,
        paused: bool | None = None,
        jobs_per_second: float | None = None,
        max_running: int | None = None,
    ) -> None:
        """Do what ``Verbs.change_queue`` does."""
        await self._execute(
            self._calls.change_queue(name, paused=paused, jobs_per_second=jobs_per_second, max_running=max_running)
        )

    async def oldest_due(self, queues: Iterable[str] = ()) -> dict[str, int]:
        """Do what ``Verbs.oldest_due`` does."""
        return await self._execute(self._calls.oldest_due(queues))

    async def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> list[str]:
        """Do what ``Verbs.enqueue_jobs`` does."""
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
        """Do what ``Verbs.dequeue_jobs`` does."""
        return await self._execute(
            self._calls.dequeue_jobs(
                queue, limit, wait=wait, lease=lease, dry_run=dry_run, acks=acks, other_queues=other_queues
            )
        )

    async def ack(self, queue: str, succeeded: Sequence[Ack] = (), failed: Sequence[Ack] = ()) -> None:
        """Do what ``Verbs.ack`` does."""
        await self._execute(self._calls.ack(queue, succeeded, failed))

    async def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> None:
        """Do what ``Verbs.checkpoint`` does."""
        await self._execute(self._calls.checkpoint(queue, checkpoints))

    async def lookup(self, descriptors: Iterable[str], *, include_body: bool = False) -> dict[str, JobInfo]:
        """Do what ``Verbs.lookup`` does."""
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
        """Do what ``Verbs.count`` does."""
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
        """Do what ``Verbs.scan`` does."""
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
        """Do what ``Verbs.scan_all`` does."""
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
        """Do what ``Verbs.scan_fairly`` does."""
        parts = [Part(queue, state) for queue in queues]
        return await carry_out_async(fair_scan(self._calls, parts, limit), self._execute)

    async def periodic_jobs(self, queues: Iterable[str] = ()) -> PeriodicJobs:
        """Do what ``Verbs.periodic_jobs`` does."""
        names = list(queues) or sorted(await self.queue_names())
        return await carry_out_async(find_periodic(self._calls, names), self._execute)

    async def retry_failed(
        self, queue: str, *, priority: int = 1, attempts: int = 1, run_after_ms: int | None = None, limit: int = 1000
    ) -> int:
        """Do what ``Verbs.retry_failed`` does."""
        return await self._execute(
            self._calls.retry_failed(
                queue, priority=priority, attempts=attempts, run_after_ms=run_after_ms, limit=limit
            )
        )

    async def retry_these(
        self, queue: str, descriptors: Iterable[str], *, attempts: int = 1, run_after_ms: int | None = None
    ) -> int:
        """Do what ``Verbs.retry_these`` does."""
        return await self._execute(
            self._calls.retry_these(queue, descriptors, attempts=attempts, run_after_ms=run_after_ms)
        )

    async def run_now(self, queue: str, descriptors: Iterable[str]) -> int:
        """Do what ``Verbs.run_now`` does."""
        return await self._execute(self._calls.run_now(queue, descriptors))

    async def delete_these(self, queue: str, descriptors: Iterable[str], state: JobState) -> int:
        """Do what ``Verbs.delete_these`` does."""
        return await self._execute(self._calls.delete_these(queue, descriptors, state))

    async def delete_jobs(
        self, queue: str, state: JobState, *, priority: int = 1, body_regex: str | None = None, limit: int = 1000
    ) -> int:
        """Do what ``Verbs.delete_jobs`` does."""
        return await self._execute(
            self._calls.delete_jobs(queue, state, priority=priority, body_regex=body_regex, limit=limit)
        )

    async def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> list[str]:
        """Do what ``Verbs.import_jobs`` does."""
        return await self._execute(self._calls.import_jobs(queue, jobs))

    async def move_these(self, move: Move, descriptors: Sequence[str]) -> int:
        """Do what ``Verbs.move_these`` does."""
        return await carry_out_async(move.steps(self._calls, descriptors), self._execute)

    async def release_claims(self, queue: str, source: str) -> int:
        """Do what ``Verbs.release_claims`` does."""
        return await self._execute(self._calls.release_claims(queue, source))

    async def report_worker(self, report: WorkerReport, keep: float) -> None:
        """Do what ``Verbs.report_worker`` does."""
        await self._execute(self._calls.report_worker(report, keep))

    async def workers(self) -> list[WorkerReport]:
        """Do what ``Verbs.workers`` does."""
        return await self._execute(self._calls.workers())
