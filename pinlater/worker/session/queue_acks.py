"""The acks and releases of one queue, as they wait to be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeVar

from pinlater.model.attempts import Checkpoint
from pinlater.model.statistics import RunStatistics
from pinlater.protocol.conversion.acks import AckFields, ack_structs, acks_struct
from pinlater.protocol.messages import PinLaterJobAckRequest
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Failure, Interruption

_T = TypeVar("_T")

JobRef = tuple[DequeuedBatch, int]
"""A job: its batch and its position there."""


class QueueAcks:
    """Holds the acks and releases of one queue.

    Attributes:
        succeeded: jobs that succeeded.
        failed: jobs that failed, with their failures.
        returned: jobs to release; those that have run with their interruptions, the others with None.
        refused_since: monotonic seconds since which a server has refused them; None: it has not.
    """

    def __init__(
        self,
        queue: str,
        *,
        succeeded: Iterable[JobRef] = (),
        failed: Iterable[tuple[JobRef, Failure]] = (),
        returned: Iterable[tuple[JobRef, Interruption | None]] = (),
    ) -> None:
        self.queue = queue
        self.succeeded = list(succeeded)
        self.failed = list(failed)
        self.returned = list(returned)
        self.refused_since: float | None = None

    def __len__(self) -> int:
        return len(self.succeeded) + len(self.failed) + len(self.returned)

    def add(self, other: QueueAcks) -> None:
        """Add the acks and releases of another ``QueueAcks`` of the same queue."""
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.returned += other.returned

    @property
    def are_lost(self) -> bool:
        """Whether the claims of all jobs have ended; a server would ignore the acks."""
        return all(map(_is_lost, self.jobs()))

    def take_lost(self) -> QueueAcks:
        """Remove and return the acks of jobs whose claims have ended."""
        lost = QueueAcks(self.queue)
        self.succeeded, lost.succeeded = _partition(self.succeeded, _is_lost)
        self.failed, lost.failed = _partition(self.failed, lambda one: _is_lost(one[0]))
        return lost

    def split(self) -> tuple[QueueAcks, QueueAcks]:
        """Split into acks and releases, which need different calls."""
        acks, returns = QueueAcks(self.queue), QueueAcks(self.queue)
        acks.succeeded, acks.failed, returns.returned = self.succeeded, self.failed, self.returned
        acks.refused_since = returns.refused_since = self.refused_since
        return acks, returns

    def parts(self) -> Iterator[QueueAcks]:
        """Yield one ``QueueAcks`` per job."""
        yield from (QueueAcks(self.queue, succeeded=[one]) for one in self.succeeded)
        yield from (QueueAcks(self.queue, failed=[one]) for one in self.failed)
        yield from (QueueAcks(self.queue, returned=[one]) for one in self.returned)

    def jobs(self) -> Iterable[JobRef]:
        """Return all jobs."""
        return chain(self.succeeded, (job for job, _ in self.failed), (job for job, _ in self.returned))

    def finish(self) -> None:
        """Free the places of the jobs in the claim table."""
        for batch, jobs in groupby(self.jobs(), itemgetter(0)):
            batch.finish([position for _, position in jobs])

    def acks(self, runs: Sequence[RunStatistics] = ()) -> PinLaterJobAckRequest:
        """Build the ack request, with the run statistics of the queue's classes."""
        succeeded: list[AckFields] = [
            _with_more(batch, position)
            if batch.results or batch.run_ms
            else (batch.descriptors[position], "", 0, batch.claim or None, None)
            for batch, position in self.succeeded
        ]
        failed = [
            failure.ack(batch.descriptors[position], batch.claim or None) for (batch, position), failure in self.failed
        ]
        return acks_struct(self.queue, ack_structs(succeeded) or None, ack_structs(failed) or None, runs)

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the releases; jobs that do not sleep keep their place in the queue."""
        return (_return_of(*returned) for returned in self.returned)


def _is_lost(job: JobRef) -> bool:
    batch, position = job
    return batch.is_lost(position)


def _partition(items: Iterable[_T], is_wanted: Callable[[_T], bool]) -> tuple[list[_T], list[_T]]:
    """Return the items that are not wanted, and those that are; each is asked once, since the keeper may mark it."""
    others: list[_T] = []
    wanted: list[_T] = []
    for item in items:
        (wanted if is_wanted(item) else others).append(item)
    return others, wanted


def _with_more(batch: DequeuedBatch, position: int) -> AckFields:
    result, run_ms = batch.results.get(position), batch.run_ms.get(position)
    return (batch.descriptors[position], "", 0, batch.claim or None, None, result, None, None, run_ms)


def _return_of(job: JobRef, interruption: Interruption | None) -> Checkpoint:
    batch, position = job
    descriptor, claim = batch.descriptors[position], batch.claim or None
    due_ms = batch.metadata[position].runAfterTimestampMillis
    if interruption is None:
        return Checkpoint(descriptor, claim, move_to_pending=True, run_after_ms=due_ms)
    if interruption.run_after_ms is not None:
        due_ms = interruption.run_after_ms
    told = interruption.body, True, due_ms, interruption.attempts, interruption.status or None
    return Checkpoint(descriptor, claim, *told, waits_for=interruption.waits_for, drops=interruption.drops)
