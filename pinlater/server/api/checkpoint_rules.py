"""The rules of checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.model.attempts import StoredCheckpoint
from pinlater.protocol.conversion.acks import stored_checkpoint
from pinlater.protocol.messages import PinLaterCheckpointJobRequest
from pinlater.server.api.calls import require
from pinlater.server.api.rules import check_message_text, due_time, status_text, too_large


def checkpoints(
    requests: Sequence[PinLaterCheckpointJobRequest], source: str, max_body_bytes: int
) -> list[StoredCheckpoint]:
    """Convert and validate the checkpoints of a call."""
    return [_checkpoint(request, source, max_body_bytes) for request in requests]


def _checkpoint(request: PinLaterCheckpointJobRequest, source: str, max_body_bytes: int) -> StoredCheckpoint:
    require(request, "request.requests[]")
    checkpoint = stored_checkpoint(request, source, status_text(request.prependCustomStatus))
    if checkpoint.run_after_ms is not None and (due_ms := due_time(checkpoint.run_after_ms)) != checkpoint.run_after_ms:
        checkpoint = checkpoint._replace(run_after_ms=due_ms)
    if checkpoint.body is not None and len(checkpoint.body) > max_body_bytes:
        raise too_large(f"the checkpoint of {request.jobDescriptor}", checkpoint.body, max_body_bytes)
    for message in checkpoint.keeps:
        check_message_text(message.name, f"the name of a message that {request.jobDescriptor} keeps")
        check_message_text(message.id, f"the id of a message that {request.jobDescriptor} keeps")
    if sum(len(message.payload) for message in checkpoint.keeps) > max_body_bytes:
        payload = b"".join(message.payload for message in checkpoint.keeps)
        raise too_large(f"what {request.jobDescriptor} keeps", payload, max_body_bytes)
    for name in checkpoint.drops:
        check_message_text(name, f"the name of messages that {request.jobDescriptor} drops")
    return checkpoint
