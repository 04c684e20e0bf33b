"""Buffers acks of finished jobs, and releases, until the server has confirmed them.

They survive any number of lost connections. Sending them twice is harmless, since each carries its claim.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import (
    BodyTooLarge,
    CallUnsendable,
    EnqueueRejected,
    JobError,
    QueueNotFound,
    ResultTooLarge,
    ServiceError,
)
from pinlater.model.class_name import name_in
from pinlater.model.plural import plural
from pinlater.model.statistics import RunStatistics
from pinlater.protocol.conversion.acks import acks_struct
from pinlater.protocol.messages import PinLaterJobAckRequest
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.counters import RETURNED, UNACKED, CountEvent, ignore_event
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.failure_text import describe_unrun
from pinlater.worker.session.late_acks import LateAcks
from pinlater.worker.session.outcome import Failure, Interruption, ReleasedUnknown
from pinlater.worker.session.pipeline import OnReply, Pipeline
from pinlater.worker.session.queue_acks import JobRef, QueueAcks
from pinlater.worker.session.run_reporter import Reports

_FIRST_HOLD_SECONDS = 0.1
_LONGEST_HOLD_SECONDS = 2.0

log = logging.getLogger(__name__)


class _AcksByQueue(dict[str, QueueAcks]):
    """Acks and releases by queue; looking up a missing queue adds it."""

    def __missing__(self, queue: str) -> QueueAcks:
        queue_acks = self[queue] = QueueAcks(queue)
        return queue_acks


class AckBuffer:
    """Collects acks and releases, sends them, and keeps them until they are confirmed.

    Acks that a server refuses are sent again for the length of a lease. Then they move to ``late`` if the store is
    away, and are given up otherwise.

    Attributes:
        late: acks and releases that a store did not take in time because it was away.

    Args:
        pipeline: sends the calls.
        calls: builds calls.
        on_retry: called with the delay in milliseconds after which a failed job will run again.
        count: called for jobs that went back unstarted, and for ended jobs that no server acknowledged.
        take_runs: returns the run statistics to report now, by queue.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        calls: Calls,
        on_retry: Callable[[int], object],
        count: CountEvent = ignore_event,
        *,
        take_runs: Callable[[], Reports] = dict,
    ) -> None:
        self._pipeline = pipeline
        self._calls = calls
        self._on_retry = on_retry
        self._count = count
        self._take_runs = take_runs
        self.late = LateAcks(pipeline, count)
        self._pending = _AcksByQueue()
        self._refused: dict[tuple[str, float], QueueAcks] = {}
        self._in_flight = 0
        self._hold_seconds = 0.0
        self._hold_until = 0.0

    @property
    def has_pending(self) -> bool:
        """Whether something has to be sent."""
        return bool(self._pending or self._refused)

    @property
    def is_empty(self) -> bool:
        """Whether everything is confirmed."""
        return not self.has_pending and not self._in_flight

    @property
    def retry_in_seconds(self) -> float:
        """Seconds until rejected acks are sent again."""
        return max(self._hold_until - time.monotonic(), 0.0)

    # Collecting

    def succeeded(self, queue: str, job: JobRef) -> None:
        """Add the ack of a success."""
        self._pending[queue].succeeded.append(job)

    def failed(self, queue: str, job: JobRef, failure: Failure) -> None:
        """Add the ack of a failure."""
        self._pending[queue].failed.append((job, failure))

    def drop_acked(self) -> None:
        """Drop the acks of jobs that the keeper has acked."""
        self.late.drop_acked()
        for queue_acks in chain(self._pending.values(), self._refused.values()):
            if lost := queue_acks.take_lost():
                self._on_confirmed(lost)
        self._pending = _AcksByQueue({queue: queue_acks for queue, queue_acks in self._pending.items() if queue_acks})
        self._refused = {key: queue_acks for key, queue_acks in self._refused.items() if queue_acks}

    def release(self, batch: DequeuedBatch, positions: Iterable[int], interruption: Interruption | None = None) -> None:
        """Add the release of jobs, no attempt spent."""
        for position in positions:
            batch.unstart(position, has_run=interruption is not None)
            self._pending[batch.queues[position]].returned.append(((batch, position), interruption))

    def _keep(self, queue_acks: QueueAcks) -> None:
        """Keep acks and releases to send them again.

        Refused ones only join those that were refused at about the same time, since each is given up for its age.
        """
        since = queue_acks.refused_since
        if since is None:
            self._pending[queue_acks.queue].add(queue_acks)
            return
        kept = self._refused.setdefault((queue_acks.queue, since // (self._pipeline.lease_seconds / 10)), queue_acks)
        if kept is not queue_acks:
            kept.add(queue_acks)

    # Sending

    def piggyback(self) -> tuple[PinLaterJobAckRequest | None, OnReply]:
        """Return acks to piggyback on a dequeue, and the function to call with its reply.

        Only the acks of one queue can be piggybacked; everything else is sent now, ahead of the dequeue.
        """
        self.late.send()
        if self.retry_in_seconds:
            return None, _ignore
        runs = self._take_runs()
        if not self.has_pending:
            return self._piggyback_runs(runs)
        largest = max(self._pending.values(), key=_count_acks, default=None)
        if largest is None or not _count_acks(largest):
            self._flush(runs)
            return None, _ignore
        acks, returns = self._pending.pop(largest.queue).split()
        if returns:
            self._pending[largest.queue] = returns
        own_runs = runs.pop(largest.queue, ())
        self._flush(runs)
        return acks.acks(own_runs), self._on_reply_to(acks, is_piggybacked=True)

    def _piggyback_runs(self, runs: Reports) -> tuple[PinLaterJobAckRequest | None, OnReply]:
        """Return the run statistics of one queue; send those of the others now."""
        if not runs:
            return None, _ignore
        queue, own_runs = runs.popitem()
        self._flush(runs)
        return acks_struct(queue, runs=own_runs), _ignore

    def flush(self) -> None:
        """Send everything now."""
        self.late.send()
        if not self.retry_in_seconds and self._pipeline.is_open:
            self._flush(self._take_runs())

    def _flush(self, runs: Reports) -> None:
        """Send everything, and run statistics: with the acks of their queue, if there are any."""
        if not self._pipeline.is_open:
            return
        unsent = [*self._pending.values(), *self._refused.values()]
        self._pending, self._refused = _AcksByQueue(), {}
        for queue_acks in unsent:
            self._send_acks(queue_acks, runs.pop(queue_acks.queue, ()))
        for queue, own_runs in runs.items():
            self._send_runs(queue, own_runs)

    def _send_runs(self, queue: str, runs: Sequence[RunStatistics]) -> None:
        self._pipeline.send(self._calls.ack_structs(acks_struct(queue, runs=runs)), _ignore)

    def _send_acks(self, queue_acks: QueueAcks, runs: Sequence[RunStatistics] = ()) -> None:
        acks, returns = queue_acks.split()
        if acks:
            self._send(acks, runs)
        elif runs:
            self._send_runs(queue_acks.queue, runs)
        if returns:
            self._send(returns)

    def _send(self, queue_acks: QueueAcks, runs: Sequence[RunStatistics] = ()) -> None:
        self._pipeline.send(self._call_of(queue_acks, runs), self._on_reply_to(queue_acks))

    def _call_of(self, queue_acks: QueueAcks, runs: Sequence[RunStatistics] = ()) -> Call[None]:
        """Return the call for acks, or for releases."""
        if queue_acks.returned:
            return self._calls.checkpoint(queue_acks.queue, list(queue_acks.checkpoints()))
        return self._calls.ack_structs(queue_acks.acks(runs))

    def _on_reply_to(self, queue_acks: QueueAcks, *, is_piggybacked: bool = False) -> OnReply:
        self._in_flight += 1

        def on_reply(reply: Any) -> None:
            self._in_flight -= 1
            is_gone = isinstance(reply, QueueNotFound) and not is_piggybacked  # a dequeue may lack another queue
            if is_gone or not isinstance(reply, Exception):
                self._on_confirmed(queue_acks)
            elif isinstance(reply, CallUnsendable | EnqueueRejected):
                self._on_unsendable(queue_acks, reply)
            elif isinstance(reply, ServiceError):
                self._on_refused(queue_acks, reply)
            else:
                self._keep(queue_acks)

        return on_reply

    def _on_confirmed(self, queue_acks: QueueAcks) -> None:
        self._hold_seconds = 0.0
        queue_acks.finish()
        if queue_acks.returned:
            self._count(
                queue_acks.queue, RETURNED, sum(interruption is None for _, interruption in queue_acks.returned)
            )
        for (batch, position), failure in queue_acks.failed:
            if failure.delay_ms is not None and batch.has_further_attempts(position):
                self._on_retry(failure.delay_ms)

    def _on_refused(self, queue_acks: QueueAcks, error: ServiceError) -> None:
        """Try again later: the server may have rejected only the dequeue that carried the acks."""
        now = time.monotonic()
        if queue_acks.refused_since is None:
            queue_acks.refused_since = now
        else:
            self._hold_seconds = min(max(2 * self._hold_seconds, _FIRST_HOLD_SECONDS), _LONGEST_HOLD_SECONDS)
            self._hold_until = now + self._hold_seconds
        if now - queue_acks.refused_since < self._pipeline.lease_seconds:
            self._keep(queue_acks)
            return
        is_away = isinstance(error, STORE_OUT_OF_REACH)
        further = "; it is told again until the store is back" if is_away else ""
        log.error(
            "the server does not take the end of %s of queue %s%s: %s",
            plural(len(queue_acks)),
            queue_acks.queue,
            further,
            error,
        )
        if is_away:
            self.late.add(queue_acks, self._call_of(queue_acks))
        else:
            self._give_up(queue_acks)

    def _on_unsendable(self, queue_acks: QueueAcks, error: CallUnsendable | EnqueueRejected) -> None:
        """Send job by job what cannot be sent together: one of them may have too large a body, for instance."""
        if len(queue_acks) > 1:
            for part in queue_acks.parts():
                self._send_acks(part)
            return
        unstorable = [
            (job, acked) for job, acked in queue_acks.returned if acked is not None and acked.body is not None
        ]
        if unstorable:
            for (batch, position), interruption in unstorable:
                self._replace_return(batch, position, interruption, error)
            self.flush()
            return
        if len(queue_acks.succeeded) == 1 and self._replace_result(*queue_acks.succeeded[0], error):
            self.flush()
            return
        for batch, position in queue_acks.jobs():
            log.error(
                "%s cannot be acked; it returns when its lease expires: %s",
                batch.descriptors[position],
                error,
            )
        self._give_up(queue_acks)

    def _replace_return(
        self, batch: DequeuedBatch, position: int, interruption: Interruption, error: CallUnsendable | EnqueueRejected
    ) -> None:
        """Fail a job whose new body no server takes; a job of an unknown class is released without the new body."""
        if isinstance(interruption, ReleasedUnknown):
            self._pending[batch.queues[position]].returned.append(((batch, position), replace(interruption, body=None)))
            return
        size = len(interruption.body or b"")
        why = BodyTooLarge(f"what it goes on with, {size} bytes, cannot be stored: {error}")
        self._fail(batch, position, why, batch.area.delays[position])

    def _replace_result(self, batch: DequeuedBatch, position: int, error: CallUnsendable | EnqueueRejected) -> bool:
        """Give up a job whose result no server takes; return False if that is not the reason."""
        result = batch.results.pop(position, None)
        if result is None:
            return False
        why = ResultTooLarge(f"what it returned, {len(result)} bytes, cannot be stored: {error}")
        self._fail(batch, position, why, None)
        return True

    def _fail(self, batch: DequeuedBatch, position: int, why: JobError, delay_ms: int | None) -> None:
        log.error("%s fails: %s", batch.descriptors[position], why)
        status = describe_unrun(batch.metadata[position], why, is_last=delay_ms is None)
        failure = Failure(status, delay_ms, job=name_in(batch.bodies[position]) or "")
        batch.keep_failure(position, failure)
        self.failed(batch.queues[position], (batch, position), failure)

    def _give_up(self, queue_acks: QueueAcks) -> None:
        self._count(queue_acks.queue, UNACKED, len(queue_acks))
        queue_acks.finish()


def _count_acks(queue_acks: QueueAcks) -> int:
    return len(queue_acks.succeeded) + len(queue_acks.failed)


def _ignore(_: Any) -> None:
    """Ignore the reply: it confirms no acks."""
