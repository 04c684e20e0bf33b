"""What the server does not know yet: jobs that ended, and jobs to be given back.

It is kept until the server has confirmed it, over any number of lost connections. Sending it twice is harmless,
since it carries the claim.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pinlater.errors import BodyTooLarge, CallUnsendable, EnqueueRejected, QueueNotFound, ServiceError
from pinlater.model.attempts import Checkpoint
from pinlater.protocol.conversion.acks import acks_struct, failure_structs, success_structs
from pinlater.protocol.messages import PinLaterJobAckRequest
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.counters import RETURNED, UNTOLD, CountEvent, count_nothing
from pinlater.worker.claim_table.snapshot import FAILED
from pinlater.worker.session.batch import Batch, queue_of
from pinlater.worker.session.outcome import Failure, GivenBack, Interruption, in_words
from pinlater.worker.session.pipeline import OnReply, Pipeline

_FIRST_HOLD_SECONDS = 0.1
_LONGEST_HOLD_SECONDS = 2.0

log = logging.getLogger(__name__)

Place = tuple[Batch, int]
"""A job: its batch and its position there."""


class Bundle:
    """What is to be said about jobs of one queue.

    Attributes:
        succeeded: those that did.
        failed: those that did not, and how.
        returned: those that go back; an interrupted one with the body that it goes on from.
    """

    def __init__(
        self,
        queue: str,
        *,
        succeeded: Iterable[Place] = (),
        failed: Iterable[tuple[Place, Failure]] = (),
        returned: Iterable[tuple[Place, Interruption | None]] = (),
    ) -> None:
        self.queue = queue
        self.succeeded = list(succeeded)
        self.failed = list(failed)
        self.returned = list(returned)
        self.refused_since: float | None = None

    def __len__(self) -> int:
        return len(self.succeeded) + len(self.failed) + len(self.returned)

    def add(self, other: Bundle) -> None:
        """Take over what another bundle of the queue has to say."""
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.returned += other.returned
        self.refused_since = self.refused_since or other.refused_since

    def split(self) -> tuple[Bundle, Bundle]:
        """Return the acks and the returns apart: they travel in different calls."""
        acks, returns = Bundle(self.queue), Bundle(self.queue)
        acks.succeeded, acks.failed, returns.returned = self.succeeded, self.failed, self.returned
        acks.refused_since = returns.refused_since = self.refused_since
        return acks, returns

    def parts(self) -> Iterator[Bundle]:
        """Yield a bundle for each job."""
        yield from (Bundle(self.queue, succeeded=[one]) for one in self.succeeded)
        yield from (Bundle(self.queue, failed=[one]) for one in self.failed)
        yield from (Bundle(self.queue, returned=[one]) for one in self.returned)

    def places(self) -> Iterable[Place]:
        """Yield all jobs."""
        yield from self.succeeded
        yield from (place for place, _ in self.failed)
        yield from (place for place, _ in self.returned)

    def acks(self) -> PinLaterJobAckRequest:
        """Return the acks as the wire has them."""
        succeeded = [(batch.descriptors[position], batch.claim) for batch, position in self.succeeded]
        failed = [
            (batch.descriptors[position], batch.claim, *failure.ack) for (batch, position), failure in self.failed
        ]
        return acks_struct(self.queue, success_structs(succeeded) or None, failure_structs(failed) or None)

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the returns; jobs that do not sleep keep their place in the queue."""
        return (_return_of(*returned) for returned in self.returned)


class Settler:
    """Collects what is to be said, says it, and keeps it until it is confirmed.

    Args:
        pipeline: to say it through.
        calls: builds calls.
        patience_seconds: how long a server's refusal is put up with.
        on_retry: told, in milliseconds, after which delay a failed job will run again.
        count: told of jobs that went back unstarted, and of those whose end no server took.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        calls: Calls,
        patience_seconds: float,
        on_retry: Callable[[int], object],
        count: CountEvent = count_nothing,
    ) -> None:
        self._pipeline = pipeline
        self._calls = calls
        self._patience_seconds = patience_seconds
        self._on_retry = on_retry
        self._count = count
        self._pending: dict[str, Bundle] = {}
        self._in_flight = 0
        self._hold_seconds = 0.0
        self._hold_until = 0.0

    @property
    def has_pending(self) -> bool:
        """Whether something is to be said."""
        return bool(self._pending)

    @property
    def is_settled(self) -> bool:
        """Whether all that was to be said is confirmed."""
        return not self._pending and not self._in_flight

    @property
    def held_seconds(self) -> float:
        """How long to wait before something that the server refused is said again."""
        return max(self._hold_until - time.monotonic(), 0.0)

    # Collecting

    def _bundle(self, queue: str) -> Bundle:
        bundle = self._pending.get(queue)
        if bundle is None:
            bundle = self._pending[queue] = Bundle(queue)
        return bundle

    def succeeded(self, queue: str, place: Place) -> None:
        """Note a success."""
        self._bundle(queue).succeeded.append(place)

    def failed(self, queue: str, place: Place, failure: Failure) -> None:
        """Note a failure."""
        self._bundle(queue).failed.append((place, failure))

    def leave_out(self, batch: Batch, told: range) -> None:
        """Forget successes of a batch that the keeper has told."""
        for bundle in self._pending.values():
            succeeded, bundle.succeeded = bundle.succeeded, []
            for place in succeeded:
                if place[0] is batch and place[1] in told:
                    batch.settled(place[1])
                else:
                    bundle.succeeded.append(place)

    def give_back(self, batch: Batch, positions: Iterable[int], interruption: Interruption | None = None) -> None:
        """Note jobs that go back to their queue, no attempt spent."""
        for position in positions:
            batch.unstart(position, has_run=interruption is not None)
            self._bundle(queue_of(batch.descriptors[position])).returned.append(((batch, position), interruption))

    # Saying

    def ride(self) -> tuple[PinLaterJobAckRequest | None, OnReply]:
        """Return acks to put on board of a dequeue, and what is to be told of its reply.

        One queue's acks can ride; all else is sent now, ahead of the dequeue.
        """
        if not self._pending or self.held_seconds:
            return None, _nothing
        riders = max(self._pending.values(), key=_acks_in)
        if not _acks_in(riders) or riders.refused_since is not None:
            self.flush()
            return None, _nothing
        acks, returns = self._pending.pop(riders.queue).split()
        if returns:
            self._pending[riders.queue] = returns
        self.flush()
        return acks.acks(), self._departed(acks)

    def flush(self) -> None:
        """Say everything now."""
        if not self._pending or self.held_seconds or not self._pipeline.is_open:
            return
        pending, self._pending = self._pending, {}
        for bundle in pending.values():
            self._say(bundle)

    def _say(self, bundle: Bundle) -> None:
        acks, returns = bundle.split()
        if acks:
            self._send(self._calls.ack_structs(acks.acks()), acks)
        if returns:
            self._send(self._calls.checkpoint(returns.queue, returns.checkpoints()), returns)

    def _send(self, call: Call[None], bundle: Bundle) -> None:
        self._pipeline.send(call, self._departed(bundle))

    def _departed(self, bundle: Bundle) -> OnReply:
        self._in_flight += 1

        def on_reply(reply: Any) -> None:
            self._in_flight -= 1
            if not isinstance(reply, Exception) or isinstance(reply, QueueNotFound):
                self._confirmed(bundle)
            elif isinstance(reply, CallUnsendable | EnqueueRejected):
                self._impossible(bundle, reply)
            elif isinstance(reply, ServiceError):
                self._refused(bundle, reply)
            else:
                self._bundle(bundle.queue).add(bundle)

        return on_reply

    def _confirmed(self, bundle: Bundle) -> None:
        self._hold_seconds = 0.0
        for batch, position in bundle.places():
            batch.settled(position)
        if bundle.returned:
            self._count(bundle.queue, RETURNED, sum(interruption is None for _, interruption in bundle.returned))
        for (batch, position), failure in bundle.failed:
            if failure.delay_ms is not None and batch.metadata[position].attemptsRemaining > 1:
                self._on_retry(failure.delay_ms)

    def _refused(self, bundle: Bundle, error: ServiceError) -> None:
        """Try again later: the refusal may be meant for the dequeue that the acks rode on."""
        now = time.monotonic()
        if bundle.refused_since is None:
            bundle.refused_since = now
        else:
            self._hold_seconds = min(max(2 * self._hold_seconds, _FIRST_HOLD_SECONDS), _LONGEST_HOLD_SECONDS)
            self._hold_until = now + self._hold_seconds
        if now - bundle.refused_since < self._patience_seconds:
            self._bundle(bundle.queue).add(bundle)
            return
        log.error("the server does not take the end of %d jobs of queue %s: %s", len(bundle), bundle.queue, error)
        self._give_up(bundle)

    def _impossible(self, bundle: Bundle, error: CallUnsendable | EnqueueRejected) -> None:
        """Say of each job alone what cannot be said of all, since one of them has too large a body, for instance."""
        if len(bundle) > 1:
            for part in bundle.parts():
                self._say(part)
            return
        unstorable = [(place, told) for place, told in bundle.returned if told is not None and told.body is not None]
        if unstorable:
            for (batch, position), interruption in unstorable:
                self._return_otherwise(batch, position, interruption, error)
            self.flush()
            return
        for batch, position in bundle.places():
            log.error("%s ends with its claim, since its end cannot be told: %s", batch.descriptors[position], error)
        self._give_up(bundle)

    def _return_otherwise(
        self, batch: Batch, position: int, interruption: Interruption, error: CallUnsendable | EnqueueRejected
    ) -> None:
        """Fail a job that no server takes back with its body; one that nobody reads goes back without."""
        if isinstance(interruption, GivenBack):
            self._bundle(queue_of(batch.descriptors[position])).returned.append(
                ((batch, position), replace(interruption, body=None))
            )
            return
        size = len(interruption.body or b"")
        why = BodyTooLarge(f"what it goes on with, {size} bytes, cannot be stored: {error}")
        log.error("%s fails: %s", batch.descriptors[position], why)
        metadata = batch.metadata[position]
        allowed = metadata.attemptsAllowed
        status = in_words(allowed - metadata.attemptsRemaining + 1, allowed, 0.0, why, with_traceback=False)
        batch.area.states[position] = FAILED
        self.failed(
            queue_of(batch.descriptors[position]), (batch, position), Failure(status, batch.area.delays[position])
        )

    def _give_up(self, bundle: Bundle) -> None:
        self._count(bundle.queue, UNTOLD, len(bundle))
        for batch, position in bundle.places():
            batch.settled(position)


def _return_of(place: Place, interruption: Interruption | None) -> Checkpoint:
    batch, position = place
    descriptor, claim = batch.descriptors[position], batch.claim or None
    due_ms = batch.metadata[position].runAfterTimestampMillis
    if interruption is None:
        return Checkpoint(descriptor, claim, move_to_pending=True, run_after_ms=due_ms)
    if interruption.run_after_ms is not None:
        due_ms = interruption.run_after_ms
    return Checkpoint(
        descriptor, claim, interruption.body, True, due_ms, interruption.attempts, interruption.status or None
    )


def _acks_in(bundle: Bundle) -> int:
    return len(bundle.succeeded) + len(bundle.failed)


def _nothing(_: Any) -> None:
    """Nothing rides."""
