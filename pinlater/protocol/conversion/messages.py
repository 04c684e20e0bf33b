"""Structs of messages to jobs <-> records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from pinlater.model.messages import CancelledJobs, Message, MessageWait, Parent, ReceivedMessage
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion.values import default, present


def fields_of_parent(parent: Parent | None) -> tuple[str | None, str | None, int | None]:
    """Return the three fields of a job that name its parent."""
    return parent or (None, None, None)


def parent_of(struct: wire.PinLaterJob | wire.PinLaterJobInfo) -> Parent | None:
    """Read the parent of a job; what it lacks is empty, or 0."""
    if struct.parentDescriptor is None:
        return None
    return Parent(struct.parentDescriptor, struct.parentMessageName or "", struct.parentPosition or 0)


def wait_structs(waits: Iterable[MessageWait]) -> list[wire.PinLaterMessageWait] | None:
    """Build the structs of what a job waits for; None if that is nothing."""
    return [wire.PinLaterMessageWait(*wait) for wait in waits] or None


def waits(structs: Iterable[wire.PinLaterMessageWait] | None) -> tuple[MessageWait, ...]:
    """Read what a job waits for."""
    return tuple(MessageWait(struct.messageName or "", default(struct.count, 0)) for struct in structs or ())


def message(request: wire.PinLaterSendMessageRequest) -> Message:
    """Read a message that is to be sent."""
    return Message(request.name or "", request.id or "", request.payload or b"")


def kept_structs(messages: Iterable[Message]) -> list[wire.PinLaterKeptMessage] | None:
    """Build the structs of what a job leaves for its later attempts; None if that is nothing."""
    return [wire.PinLaterKeptMessage(one.name, one.id, one.payload) for one in messages] or None


def kept(structs: Iterable[wire.PinLaterKeptMessage] | None) -> tuple[Message, ...]:
    """Read what a job leaves for its later attempts."""
    return tuple(Message(one.name or "", one.id or "", one.payload or b"") for one in structs or ())


def message_structs(received: Iterable[ReceivedMessage]) -> list[wire.PinLaterMessage]:
    """Build the structs of a job's messages."""
    return [wire.PinLaterMessage(one.number, one.id, int(one.kind), one.payload) for one in received]


def received_messages(reply: Any) -> list[ReceivedMessage]:
    """Read a job's messages."""
    fields = attrgetter("number", "id", "payload", "kind")
    return [ReceivedMessage(*map(present, fields(one))) for one in present(reply)]


def cancelled_reply(descriptors: Sequence[str], now_ms: int) -> wire.PinLaterCancelledJobs:
    """Build the answer to who asks which jobs are to stop."""
    return wire.PinLaterCancelledJobs(list(descriptors), now_ms)


def cancelled_jobs(reply: Any) -> CancelledJobs:
    """Read which jobs are to stop."""
    found = present(reply)
    return CancelledJobs(list(present(found.jobDescriptors)), present(found.serverTimestampMillis))


def flag(reply: Any) -> bool:
    """Read a yes or no."""
    return bool(present(reply))
