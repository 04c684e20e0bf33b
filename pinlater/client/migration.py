"""Migration of a queue from the store of one server to that of another."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pinlater.client.batches import split_by_bytes
from pinlater.client.client import Client
from pinlater.client.kept_results import kept_name, with_results
from pinlater.client.moved_jobs import LookupSizer, is_tied, with_unique_key
from pinlater.client.same_store import have_one_store
from pinlater.client.store_time import now_ms_at
from pinlater.errors import PinLaterError
from pinlater.model.attempts import Ack, Checkpoint
from pinlater.model.jobs import JobInfo, missing_shards
from pinlater.model.messages import ReceivedMessage
from pinlater.model.state import JobState

PAGE_SIZE = 250
LEASE_SECONDS = 300.0
"""A batch that was claimed but not imported, since the program was killed, is due again at the source after this."""

_MOVED_STATUS = "moved to queue {} of another store\n"
_POLL_SECONDS = 1.0
_LEFT_SECONDS = 60.0
"""When a due job that was claimed but stays at the source is due again."""


class SourceKeepsJobs(PinLaterError):
    """The source did not delete the given jobs: it is a server of the original, which cannot delete by descriptor."""


class SameQueue(PinLaterError):
    """Source and target are the same queue of the same store."""


class ShardMissing(PinLaterError):
    """A shard of the source does not answer, so its jobs cannot be migrated."""


@dataclass(slots=True)
class Migration:
    """Migrates jobs in batches; can be interrupted at any time and repeated.

    A job that is pending or running at the target under its unique key is not stored again, so a batch that was
    imported but not removed at the source does no harm. Delivery remains at least once: a job that has ended at the
    target in the meantime runs again.

    Jobs of an ordered key come last and in their order, which holds as long as no worker runs any of them meanwhile.

    Attributes:
        source: client of the source.
        target: client of the target.
        queue: queue at the source.
        new_name: queue at the target.
        with_succeeded: whether to migrate succeeded jobs, too.
        on_progress: called after each batch with its size.
        moved: number of jobs migrated so far, by their state at the source; PENDING ones as ``due`` or ``scheduled``.
        left: descriptors of jobs that stay at the source, see ``is_tied``.
    """

    source: Client
    target: Client
    queue: str
    new_name: str
    with_succeeded: bool = False
    on_progress: Callable[[int], object] = lambda _: None
    moved: Counter[str] = field(default_factory=lambda: Counter(due=0, scheduled=0, failed=0, succeeded=0))
    left: set[str] = field(default_factory=set)
    _lookups: LookupSizer = field(default_factory=LookupSizer)
    _ordered: list[str] = field(default_factory=list)  # descriptors that were left for the end, the last job first

    def expected(self) -> int:
        """Return the number of jobs to migrate; the server counts up to its limit.

        Raises:
            ShardMissing: a shard of the source does not answer.
        """
        kinds = [(JobState.PENDING, False), (JobState.PENDING, True), (JobState.FAILED, False)]
        if self.with_succeeded:
            kinds.append((JobState.SUCCEEDED, False))
        return sum(self._count(state, future=future) for state, future in kinds)

    def running(self) -> int:
        """Return the number of running jobs at the source, which stay there until they end or are due again."""
        return self._count(JobState.IN_PROGRESS)

    def _count(self, state: JobState, *, future: bool = False) -> int:
        count = self.source.count(self.queue, state, future=future)
        _refuse_missing(missing_shards(count))
        return count

    # Copy

    def copy(self) -> None:
        """Copy all jobs to the target; jobs that run at the source are PENDING there.

        Raises:
            SameQueue: source and target are one queue; nothing was copied.
            ShardMissing: a shard of the source does not answer.
        """
        self._refuse_same_queue()
        for state, future in self._kinds():
            for jobs in self._all(state, future=future):
                self._record(state, future=future, count=self._import(jobs))
        for jobs in self._all(JobState.IN_PROGRESS):
            self._record(JobState.PENDING, future=False, count=self._import(jobs))
        for jobs in self._in_order(JobState.PENDING, JobState.IN_PROGRESS):
            self._record(JobState.PENDING, future=True, count=self._import(jobs))

    # Move

    def move(self, patience_seconds: float) -> int:
        """Move all jobs; return how many still run at the source after ``patience_seconds``.

        Raises:
            SourceKeepsJobs: the source cannot delete jobs by descriptor; nothing is lost, but use ``copy`` instead.
            SameQueue: source and target are one queue; nothing was moved.
            ShardMissing: a shard of the source does not answer; repeat the move when it does.
        """
        self._refuse_same_queue()
        for state, future in self._kinds():
            if (state, future) != (JobState.PENDING, False):
                self._move_by_scan(state, future=future)
        deadline = time.monotonic() + patience_seconds
        while True:
            self._move_due()
            for jobs in self._in_order(JobState.PENDING):
                count = self._import(jobs)
                self.source.delete_these(self.queue, [info.descriptor for info in jobs], JobState.PENDING)
                self._record(JobState.PENDING, future=True, count=count)
            running = self.running()
            if not running or time.monotonic() >= deadline:
                return running
            time.sleep(_POLL_SECONDS)

    def _move_by_scan(self, state: JobState, *, future: bool) -> None:
        """Move jobs that no worker claims, until there are none."""
        is_done = False
        while not is_done:
            is_done = True
            self._ordered.clear()  # they are found again
            for jobs in self._all(state, future=future):
                count = self._import(jobs)
                if not self.source.delete_these(self.queue, [info.descriptor for info in jobs], state):
                    raise SourceKeepsJobs("the source is too old to delete jobs by descriptor; copy the queue instead")
                self._record(state, future=future, count=count)
                is_done = False

    def _move_due(self) -> None:
        """Move due jobs by claiming them first: then none of them runs at the source."""
        while claimed := self.source.dequeue_jobs(self.queue, PAGE_SIZE, lease=LEASE_SECONDS):
            claims = {job.descriptor: job.claim for job in claimed}
            status = _MOVED_STATUS.format(self.new_name)
            for jobs in self._batches(list(claims)):
                count = self._import(jobs)
                self.source.ack(self.queue, [Ack(job.descriptor, claims[job.descriptor], status) for job in jobs])
                self._record(JobState.PENDING, future=False, count=count)
            self._give_back({name: claim for name, claim in claims.items() if name in self.left})

    def _give_back(self, claims: Mapping[str, str | None]) -> None:
        """Let claimed jobs that stay at the source be due again later, no attempt spent."""
        if claims:
            later_ms = now_ms_at(self.source) + int(_LEFT_SECONDS * 1000)
            given_back = [
                Checkpoint(name, claim, move_to_pending=True, run_after_ms=later_ms) for name, claim in claims.items()
            ]
            self.source.checkpoint(self.queue, given_back)

    # Copy and move

    def _refuse_same_queue(self) -> None:
        """Refuse to lose jobs: each would be found at the target already, then removed at the source as moved."""
        if self.queue == self.new_name and have_one_store(self.source, self.target, self.queue):
            raise SameQueue(
                f"both servers have one store, so queue {self.queue} is there already; name a server of another store "
                "with --to, or another queue with --new-name"
            )

    def _kinds(self) -> Iterator[tuple[JobState, bool]]:
        """Yield the states to scan, finished jobs first, because people look for these at the target."""
        if self.with_succeeded:
            yield JobState.SUCCEEDED, False
        yield JobState.FAILED, False
        yield JobState.PENDING, True
        yield JobState.PENDING, False

    def _all(self, state: JobState, *, future: bool = False) -> Iterator[list[JobInfo]]:
        continuation = None
        while True:
            page = self.source.scan(self.queue, state, future=future, limit=PAGE_SIZE, continuation=continuation)
            _refuse_missing(page.missing_shards)
            at_once = [info.descriptor for info in page.jobs if not self._leave_for_the_end(info)]
            yield from self._batches(at_once)
            continuation = page.continuation
            if continuation is None:
                return

    def _leave_for_the_end(self, info: JobInfo) -> bool:
        """Set a job of an ordered key aside, since scans begin with the job that runs last; return whether it was."""
        is_left = info.key is not None and info.key.is_ordered and not info.state.is_final
        if is_left:
            self._ordered.append(info.descriptor)
        return is_left

    def _in_order(self, *states: JobState) -> Iterator[list[JobInfo]]:
        """Yield the jobs set aside that are still in these states, in order and in lists that fit into one call."""
        left, self._ordered = self._ordered[::-1], []
        for jobs in self._batches(left):
            if still := [job for job in jobs if job.state in states]:
                yield still

    def _batches(self, descriptors: Sequence[str]) -> Iterator[list[JobInfo]]:
        """Yield the jobs that still exist, in order, in lists that fit into one call."""
        return split_by_bytes(self._with_bodies(descriptors))

    def _with_bodies(self, descriptors: Sequence[str]) -> Iterator[JobInfo]:
        for some in self._lookups.split(descriptors):
            found = self.source.lookup(some, include_body=True)
            self._lookups.record(found.values())
            for job in [found[descriptor] for descriptor in some if descriptor in found]:
                if is_tied(job):
                    self.left.add(job.descriptor)
                else:
                    yield self._whole(job)

    def _whole(self, job: JobInfo) -> JobInfo:
        name, messages = kept_name(job), list[ReceivedMessage]()
        if name is None:
            return job
        while page := self.source.read_messages(job.descriptor, name, after=messages[-1].number if messages else 0):
            messages += page
        return with_results(job, messages)

    def _import(self, jobs: Sequence[JobInfo]) -> int:
        jobs = [job for job in jobs if not self._was_moved_before(job)]
        if jobs:
            self.target.import_jobs(self.new_name, map(with_unique_key, jobs))
        return len(jobs)

    def _was_moved_before(self, job: JobInfo) -> bool:
        """Tell whether a job is SUCCEEDED only because an earlier, unfinished migration moved it."""
        return job.state is JobState.SUCCEEDED and (job.status or "").endswith(_MOVED_STATUS.format(self.new_name))

    def _record(self, state: JobState, *, future: bool, count: int) -> None:
        self.moved["scheduled" if future else {JobState.PENDING: "due"}.get(state, state.name.lower())] += count
        self.on_progress(count)


def _refuse_missing(shards: Sequence[str]) -> None:
    if shards:
        raise ShardMissing(
            f"shard {', '.join(shards)} of the source does not answer, so its jobs cannot be migrated; "
            "repeat the command when it answers"
        )
