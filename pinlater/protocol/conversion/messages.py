"""Structs of messages to jobs <-> records."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pinlater.model.messages import CancelledJobs, Message, MessageWait, Parent, ReceivedMessage
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion.record_map import RecordMap

WAIT = RecordMap(wire.PinLaterMessageWait, MessageWait, is_strict=False)
KEPT = RecordMap(wire.PinLaterKeptMessage, Message, is_strict=False)
SENT = RecordMap(wire.PinLaterSendMessageRequest, Message, order=("name", "id", "payload"), is_strict=False)
RECEIVED = RecordMap(wire.PinLaterMessage, ReceivedMessage, order=("number", "id", "payload", "kind"))
CANCELLED = RecordMap(wire.PinLaterCancelledJobs, CancelledJobs)

_parent = partial(tuple.__new__, Parent)  # runs no Python code, since there is one for each child


def parent_of(struct: wire.PinLaterJob | wire.PinLaterJobInfo) -> Parent | None:
    """Read the parent of a job; None if it has none. Missing fields become empty or 0."""
    if struct.parentDescriptor is None:
        return None
    return _parent((struct.parentDescriptor, struct.parentMessageName or "", struct.parentPosition or 0))


def waits(structs: Iterable[wire.PinLaterMessageWait] | None) -> tuple[MessageWait, ...]:
    """Read what a job waits for."""
    return tuple(map(WAIT.record, structs or ()))


def kept(structs: Iterable[wire.PinLaterKeptMessage] | None) -> tuple[Message, ...]:
    """Read the messages that a job keeps for its later attempts."""
    return tuple(map(KEPT.record, structs or ()))
