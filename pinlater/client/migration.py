"""Moves or copies the jobs of a queue from one server's store to another's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pinlater.client.chunks import LookupSizer, split_into_chunks, with_unique_key
from pinlater.client.client import Client
from pinlater.errors import PinLaterError
from pinlater.model.attempts import Ack
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState

PAGE_SIZE = 250
LEASE_SECONDS = 300.0
"""A batch that was claimed but not imported, because the program was killed, is due again at the source after this."""

_MOVED_STATUS = "moved to queue {} of another store\n"
_POLL_SECONDS = 1.0


class SourceKeepsJobs(PinLaterError):
    """The source does not delete the jobs that it was told to delete: it is a server of the original."""


@dataclass(slots=True)
class Moved:
    """How many jobs were carried over, by what they were at the source.

    Attributes:
        due: PENDING.
        scheduled: PENDING, not due yet.
        failed: FAILED.
        succeeded: SUCCEEDED.
    """

    due: int = 0
    scheduled: int = 0
    failed: int = 0
    succeeded: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.due + self.scheduled + self.failed + self.succeeded


@dataclass(slots=True)
class Migration:
    """Carries jobs over in batches; may be ended at any moment and begun anew.

    A job that waits or runs at the target under the key that it got there is not stored again, so a batch that was
    imported and not yet removed at the source does no harm. Delivery stays at least once: a job that has finished
    at the target meanwhile runs again.

    Attributes:
        source: where the jobs are.
        target: where they are to be.
        queue: their queue there.
        new_name: their queue at the target.
        with_succeeded: whether those that are done come along.
        on_progress: called after each batch with its size.
        moved: what has been done so far.
    """

    source: Client
    target: Client
    queue: str
    new_name: str
    with_succeeded: bool = False
    on_progress: Callable[[int], object] = lambda _: None
    moved: Moved = field(default_factory=Moved)
    _lookups: LookupSizer = field(default_factory=LookupSizer)

    def expected(self) -> int:
        """Return how many jobs there are to carry over; a server counts only up to its limit."""
        kinds = [(JobState.PENDING, False), (JobState.PENDING, True), (JobState.FAILED, False)]
        if self.with_succeeded:
            kinds.append((JobState.SUCCEEDED, False))
        return sum(self.source.count(self.queue, state, future=future) for state, future in kinds)

    def running(self) -> int:
        """Return how many jobs are claimed at the source: they stay there until they end or are due again."""
        return self.source.count(self.queue, JobState.IN_PROGRESS)

    # Copy

    def copy(self) -> None:
        """Store all jobs at the target, too; those that run at the source are PENDING there."""
        for state, future in self._kinds():
            for jobs in self._all(state, future=future):
                self._record(state, future=future, count=self._import(jobs))
        for jobs in self._all(JobState.IN_PROGRESS):
            self._record(JobState.PENDING, future=False, count=self._import(jobs))

    # Move

    def move(self, patience_seconds: float) -> int:
        """Carry all jobs over; return how many still ran at the source after ``patience_seconds`` of waiting.

        Raises:
            SourceKeepsJobs: the source cannot delete chosen jobs; nothing is lost, but ``copy`` has to be used.
        """
        for state, future in self._kinds():
            if (state, future) != (JobState.PENDING, False):
                self._move_by_scan(state, future=future)
        deadline = time.monotonic() + patience_seconds
        while True:
            self._move_due()
            running = self.running()
            if not running or time.monotonic() >= deadline:
                return running
            time.sleep(_POLL_SECONDS)

    def _move_by_scan(self, state: JobState, *, future: bool) -> None:
        """Carry jobs over that no worker takes: each round takes the first page, since it is gone afterwards."""
        while page := self.source.scan(self.queue, state, future=future, limit=PAGE_SIZE).jobs:
            for jobs in self._batches([info.descriptor for info in page]):
                count = self._import(jobs)
                if not self.source.delete_these(self.queue, [info.descriptor for info in jobs], state):
                    raise SourceKeepsJobs(
                        "the source keeps the jobs: it is too old to delete chosen ones; copy the queue instead"
                    )
                self._record(state, future=future, count=count)

    def _move_due(self) -> None:
        """Claim jobs as a worker does, so that none of them runs at the source any more."""
        while claimed := self.source.dequeue_jobs(self.queue, PAGE_SIZE, lease=LEASE_SECONDS):
            claims = {job.descriptor: job.claim for job in claimed}
            status = _MOVED_STATUS.format(self.new_name)
            for jobs in self._batches(list(claims)):
                count = self._import(jobs)
                self.source.ack(self.queue, [Ack(job.descriptor, claims[job.descriptor], status) for job in jobs])
                self._record(JobState.PENDING, future=False, count=count)

    # Both

    def _kinds(self) -> Iterator[tuple[JobState, bool]]:
        """Yield the states to scan, finished jobs first: people look for these at the target."""
        if self.with_succeeded:
            yield JobState.SUCCEEDED, False
        yield JobState.FAILED, False
        yield JobState.PENDING, True
        yield JobState.PENDING, False

    def _all(self, state: JobState, *, future: bool = False) -> Iterator[list[JobInfo]]:
        continuation = None
        while True:
            page = self.source.scan(self.queue, state, future=future, limit=PAGE_SIZE, continuation=continuation)
            yield from self._batches([info.descriptor for info in page.jobs])
            continuation = page.continuation
            if continuation is None:
                return

    def _batches(self, descriptors: Sequence[str]) -> Iterator[list[JobInfo]]:
        """Yield the jobs that are still there, in that order, as many at once as a call can carry."""
        return split_into_chunks(self._with_bodies(descriptors))

    def _with_bodies(self, descriptors: Sequence[str]) -> Iterator[JobInfo]:
        for some in self._lookups.split(descriptors):
            found = self.source.lookup(some, include_body=True)
            self._lookups.record(found.values())
            yield from (found[descriptor] for descriptor in some if descriptor in found)

    def _import(self, jobs: Sequence[JobInfo]) -> int:
        jobs = [job for job in jobs if not self._was_moved_before(job)]
        if jobs:
            self.target.import_jobs(self.new_name, map(with_unique_key, jobs))
        return len(jobs)

    def _was_moved_before(self, job: JobInfo) -> bool:
        """Tell whether a job is SUCCEEDED only because an earlier, unfinished migration moved it."""
        return job.state is JobState.SUCCEEDED and (job.status or "").endswith(_MOVED_STATUS.format(self.new_name))

    def _record(self, state: JobState, *, future: bool, count: int) -> None:
        kind = "scheduled" if future else {JobState.PENDING: "due"}.get(state, state.name.lower())
        setattr(self.moved, kind, getattr(self.moved, kind) + count)
        self.on_progress(count)
