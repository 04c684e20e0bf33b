"""Attempts: claimed jobs, and the acks and checkpoints that end an attempt or save its progress.

Some records exist twice on purpose: clients use seconds and text, stores use milliseconds and parsed descriptors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import JobFailure
from pinlater.model.messages import Message, MessageWait


class ClaimedJob(NamedTuple):
    """A job handed out by a dequeue.

    What a server of the original does not send is None.

    Attributes:
        descriptor: address of the job.
        body: its body.
        attempts_allowed: attempts in all.
        attempts_remaining: attempts left, this one included.
        claim: token to send back with acks and checkpoints.
        created_at_ms: when it was enqueued, epoch milliseconds.
        run_after_ms: when it became due, epoch milliseconds.
    """

    descriptor: str
    body: bytes
    attempts_allowed: int | None = None
    attempts_remaining: int | None = None
    claim: str | None = None
    created_at_ms: int | None = None
    run_after_ms: int | None = None


class DequeuedJob(NamedTuple):
    """A job as a store hands it out (or, in a dry run, would); its claim is that of the whole dequeue."""

    descriptor: str
    body: bytes
    attempts_allowed: int
    attempts_remaining: int
    created_at_ms: int
    run_after_ms: int


class Ack(NamedTuple):
    """How one job ended.

    Attributes:
        descriptor: address of the job.
        claim: its claim; the ack counts only if the job still has this claim. None: matched by state alone.
        status: text to append to the job's custom status.
        retry_delay: seconds until the next attempt of a failed job.
        final: whether a failed job is given up now, even if attempts remain.
        result: of a success: what the job returned; None: nothing.
        cancelled: whether a failed job is given up because it was cancelled.
        job: of a failure: the job's class, by which failures are grouped.
        run_ms: of a success: how long the attempt ran; None: not recorded.
    """

    descriptor: str
    claim: str | None = None
    status: str = ""
    retry_delay: float = 0.0
    final: bool = False
    result: bytes | None = None
    cancelled: bool = False
    job: str = ""
    run_ms: int | None = None


class StoredAck(NamedTuple):
    """An ack as stores take it. ``claim`` None: matched by state alone, as the original does.

    ``failure``: how the attempt failed; None: it succeeded, or the job was cancelled.
    """

    job: JobDescriptor
    claim: str | None
    status: str
    retry_delay_ms: int
    is_final: bool
    result: bytes | None = None
    is_cancelled: bool = False
    failure: JobFailure | None = None
    run_ms: int | None = None


class Acks(NamedTuple):
    """Acks that are sent with a dequeue.

    Attributes:
        succeeded: jobs that are done.
        failed: jobs whose attempt failed.
        queue: queue of these jobs; None means the dequeue's.
    """

    succeeded: Sequence[Ack] = ()
    failed: Sequence[Ack] = ()
    queue: str | None = None


class Checkpoint(NamedTuple):
    """What to change in a claimed job; None leaves a value unchanged.

    Attributes:
        descriptor: address of the job.
        claim: its claim; without one, the job must have been claimed by the same source.
        body: new body.
        move_to_pending: whether to give the job back, without spending an attempt.
        run_after_ms: epoch milliseconds before which it does not run (again).
        attempts: attempts allowed and remaining from now on.
        status: text to prepend to the job's custom status. If the answer is lost and the call is repeated, it may be
            there twice, unless the job is given back.
        waits_for: with ``move_to_pending``: the job is due as soon as one of these is fulfilled.
        keeps: messages that the job leaves for its later attempts; for servers that know ``checkpointAndKeep``.
        drops: names of messages that the job no longer needs.
    """

    descriptor: str
    claim: str | None = None
    body: bytes | None = None
    move_to_pending: bool = False
    run_after_ms: int | None = None
    attempts: int | None = None
    status: str | None = None
    waits_for: Sequence[MessageWait] = ()
    keeps: Sequence[Message] = ()
    drops: Sequence[str] = ()


class StoredCheckpoint(NamedTuple):
    """A checkpoint as stores take it: a sign of life of one claimed job, with the changes that it asks for.

    It is matched by ``claim`` if given, otherwise by ``source``, the source part of the current claim. ``waits_for`` is
    set only with ``move_to_pending``. ``run_after_ms`` None leaves the job at its place in the queue if there is a
    claim; without one it means now, as in the original. ``keeps`` and ``drops``: see ``Checkpoint``.
    """

    job: JobDescriptor
    claim: str | None
    source: str
    body: bytes | None
    move_to_pending: bool
    run_after_ms: int | None
    attempts: int | None
    status: str
    waits_for: Sequence[MessageWait] = ()
    keeps: Sequence[Message] = ()
    drops: Sequence[str] = ()

    @property
    def is_renewal(self) -> bool:
        """Whether it only renews the lease; a store can carry out all such checkpoints by one statement."""
        return (
            self.body is None
            and not self.move_to_pending
            and self.run_after_ms is None
            and self.attempts is None
            and not (self.status or self.keeps or self.drops)
        )

    def new_run_after_ms(self, now_ms: int) -> int | None:
        """Return the new ``run_after_ms`` of the job; None: it stays unchanged."""
        return now_ms if self.run_after_ms is None and self.claim is None else self.run_after_ms

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be carried out twice: that would add a status twice, or take a job from its next holder."""
        return not self.status and (self.claim is not None or not self.move_to_pending)
