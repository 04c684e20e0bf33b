"""The message that a job's end sends to its parent; for stores that decide in Python."""

from __future__ import annotations

from pinlater.model.messages import MessageKind
from pinlater.protocol.messages import FAILED, SUCCEEDED


def end_kind(state: int, *, is_cancelled: bool) -> MessageKind:
    """Return the kind of message that reports the end of a job.

    Args:
        state: the job's state; a job that has not finished is about to be deleted.
        is_cancelled: whether it is marked as cancelled.
    """
    if state == SUCCEEDED:
        return MessageKind.SUCCEEDED
    if state == FAILED:
        return MessageKind.CANCELLED if is_cancelled else MessageKind.FAILED
    return MessageKind.DELETED
