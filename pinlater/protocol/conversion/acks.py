"""Structs of acks and checkpoints <-> records."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.model.attempts import Ack, Checkpoint, StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol import messages
from pinlater.protocol.conversion.values import milliseconds

# Acks


def ack_structs(acks: Iterable[Ack]) -> list[messages.PinLaterJobAckInfo]:
    """Build the structs of acks."""
    return [
        messages.PinLaterJobAckInfo(
            ack.descriptor, ack.status, milliseconds(ack.retry_delay), ack.claim, ack.final or None
        )
        for ack in acks
    ]


def success_structs(jobs: Iterable[tuple[str, str]]) -> list[messages.PinLaterJobAckInfo]:
    """Build the structs of successes from descriptors and claims; an empty claim is none."""
    new_struct = messages.PinLaterJobAckInfo
    return [new_struct(descriptor, "", 0, claim or None) for descriptor, claim in jobs]


def failure_structs(jobs: Iterable[tuple[str, str, str, int, bool]]) -> list[messages.PinLaterJobAckInfo]:
    """Build the structs of failures from descriptors, claims, statuses, delays in milliseconds, and is_final."""
    return [
        messages.PinLaterJobAckInfo(descriptor, status, delay_ms, claim or None, is_final or None)
        for descriptor, claim, status, delay_ms, is_final in jobs
    ]


def acks_struct(
    queue: str,
    succeeded: list[messages.PinLaterJobAckInfo] | None = None,
    failed: list[messages.PinLaterJobAckInfo] | None = None,
) -> messages.PinLaterJobAckRequest:
    """Build the struct of the acks of one queue."""
    return messages.PinLaterJobAckRequest(queue, succeeded, failed)


def stored_ack(struct: messages.PinLaterJobAckInfo, descriptor: str, status: str) -> StoredAck:
    """Read an ack; its descriptor and status as they were checked.

    Raises:
        UnknownError: the descriptor is none.
    """
    job = JobDescriptor.parse(descriptor)
    return StoredAck(job, struct.claimDescriptor, status, struct.retryDelayMillis or 0, bool(struct.isFinal))


# Checkpoints


def checkpoint_struct(checkpoint: Checkpoint) -> messages.PinLaterCheckpointJobRequest:
    """Build the struct of one checkpoint.

    A server of the original takes text for a body, and would damage other bytes. So those travel in the field
    that it does not know: it leaves the body as it was.
    """
    struct = messages.PinLaterCheckpointJobRequest(
        jobDescriptor=checkpoint.descriptor,
        moveToPending=checkpoint.move_to_pending,
        runAfterTimestampMillis=checkpoint.run_after_ms,
        numOfAttemptsAllowed=checkpoint.attempts,
        prependCustomStatus=checkpoint.status,
        claimDescriptor=checkpoint.claim,
    )
    if checkpoint.body is not None:
        if _is_text(checkpoint.body):
            struct.newBody = checkpoint.body
        else:
            struct.newBodyBytes = checkpoint.body
    return struct


def stored_checkpoint(struct: messages.PinLaterCheckpointJobRequest, source: str, status: str) -> StoredCheckpoint:
    """Read a checkpoint; its status as it was checked.

    Raises:
        UnknownError: its descriptor is none.
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
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
