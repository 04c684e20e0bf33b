"""Structs of acks and checkpoints <-> records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import starmap

from pinlater.model.attempts import Ack, Checkpoint, StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import failure_of
from pinlater.model.statistics import RunStatistics
from pinlater.protocol import messages
from pinlater.protocol.conversion.messages import KEPT, WAIT, kept, waits
from pinlater.protocol.conversion.statistics import RUN_STATISTICS
from pinlater.protocol.conversion.values import MOST_RUN_MS, milliseconds

# Acks


AckFields = (
    tuple[str, str, int, str | None, bool | None]
    | tuple[str, str, int, str | None, bool | None, bytes | None, bool | None]
    | tuple[str, str, int, str | None, bool | None, bytes | None, bool | None, str | None]
    | tuple[str, str, int, str | None, bool | None, bytes | None, bool | None, str | None, int | None]
)
"""Fields of one ack: descriptor, status, milliseconds until the next attempt, claim, whether a failure is final; in few
acks also: result, whether the job was cancelled, the job's class (of failures), run time (of long successes, ms)."""


def ack_structs(acks: Iterable[AckFields]) -> list[messages.PinLaterJobAckInfo]:
    """Build the structs of acks, in a loop in C, since a worker sends one for each job."""
    return list(starmap(messages.PinLaterJobAckInfo, acks))


def acks_struct(
    queue: str,
    succeeded: list[messages.PinLaterJobAckInfo] | None = None,
    failed: list[messages.PinLaterJobAckInfo] | None = None,
    runs: Sequence[RunStatistics] = (),
) -> messages.PinLaterJobAckRequest:
    """Build the struct of the acks of one queue, with the run statistics of its classes."""
    return messages.PinLaterJobAckRequest(queue, succeeded, failed, RUN_STATISTICS.structs(runs) if runs else None)


def acks_struct_of(queue: str, succeeded: Iterable[Ack], failed: Iterable[Ack]) -> messages.PinLaterJobAckRequest:
    """Build the struct of the acks of one queue from records."""
    return acks_struct(queue, ack_structs(map(_fields_of, succeeded)), ack_structs(map(_fields_of, failed)))


def _fields_of(ack: Ack) -> AckFields:
    told = ack.descriptor, ack.status, milliseconds(ack.retry_delay), ack.claim, ack.final or None
    return (*told, ack.result, ack.cancelled or None, ack.job or None, ack.run_ms)


_stored_ack = partial(tuple.__new__, StoredAck)
"""Creates a record without a call in Python, since every ack passes here."""


def stored_ack(struct: messages.PinLaterJobAckInfo, status: str) -> StoredAck:
    """Read an ack; ``status`` is its status, validated.

    Raises:
        UnknownError: the descriptor is malformed.
    """
    job = JobDescriptor.parse(struct.jobDescriptor or "")
    is_cancelled = bool(struct.isCancelled)
    is_final = is_cancelled or bool(struct.isFinal)
    run_ms = struct.runMillis if 0 <= (struct.runMillis or 0) < MOST_RUN_MS else None
    delay_ms, claim, result = struct.retryDelayMillis or 0, struct.claimDescriptor, struct.result
    return _stored_ack((job, claim, status, delay_ms, is_final, result, is_cancelled, None, run_ms))


def stored_failure(struct: messages.PinLaterJobAckInfo, status: str) -> StoredAck:
    """Read the ack of a failure; see ``stored_ack``."""
    ack = stored_ack(struct, status)
    return ack if ack.is_cancelled else ack._replace(failure=failure_of(struct.className or "", status))


# Checkpoints


def checkpoint_struct(checkpoint: Checkpoint) -> messages.PinLaterCheckpointJobRequest:
    """Build the struct of one checkpoint.

    A server of the original expects text as a body, and would damage other bytes. So these are sent in a field that
    it does not know, and it leaves the body as it was.
    """
    struct = messages.PinLaterCheckpointJobRequest(
        jobDescriptor=checkpoint.descriptor,
        moveToPending=checkpoint.move_to_pending,
        runAfterTimestampMillis=checkpoint.run_after_ms,
        numOfAttemptsAllowed=checkpoint.attempts,
        prependCustomStatus=checkpoint.status,
        claimDescriptor=checkpoint.claim,
        waitsFor=WAIT.structs(checkpoint.waits_for) or None,
        keeps=KEPT.structs(checkpoint.keeps) or None,
        drops=list(checkpoint.drops) or None,
    )
    if checkpoint.body is not None:
        if _is_text(checkpoint.body):
            struct.newBody = checkpoint.body
        else:
            struct.newBodyBytes = checkpoint.body
    return struct


def stored_checkpoint(struct: messages.PinLaterCheckpointJobRequest, source: str, status: str) -> StoredCheckpoint:
    """Read a checkpoint; ``status`` is its status, validated.

    Raises:
        UnknownError: the descriptor is malformed.
    """
    return StoredCheckpoint(
        job=JobDescriptor.parse(struct.jobDescriptor or ""),
        claim=struct.claimDescriptor,
        source=source,
        body=struct.newBodyBytes if struct.newBodyBytes is not None else struct.newBody,
        move_to_pending=bool(struct.moveToPending),
        run_after_ms=struct.runAfterTimestampMillis,
        attempts=struct.numOfAttemptsAllowed,
        status=status,
        waits_for=waits(struct.waitsFor) if struct.waitsFor and struct.moveToPending else (),
        keeps=kept(struct.keeps),
        drops=tuple(struct.drops or ()),
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
