"""Events: values that are sent to a job, which waits for them by name."""

from __future__ import annotations

import uuid
from typing import Any

from pinlater.errors import BodyInvalid
from pinlater.jobs.finite import NO_JSON, encode_finite
from pinlater.model.messages import MAX_MESSAGE_NAME_CHARACTERS, Message

_PREFIX = "event/"


def event_name(event: str) -> str:
    """Return the name of the messages that carry an event."""
    return f"{_PREFIX}{event}"


def check_event(event: str) -> None:
    """Refuse a name that no event can have.

    Raises:
        ValueError: it is too long, or has a NUL.
    """
    most = MAX_MESSAGE_NAME_CHARACTERS - len(_PREFIX)
    if len(event) > most or "\0" in event:
        raise ValueError(
            f"event {event[:60]!r} has {len(event)} characters; its name must have {most} at most, and no NUL"
        )


def event_in(name: str) -> str | None:
    """Return the event that messages of a name carry; None if they carry none."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def event_message(event: str, value: Any, event_id: str | None = None) -> Message:
    """Return the message that carries an event.

    Args:
        event: its name.
        value: anything that JSON can carry.
        event_id: of two events with the same name and id, only the first is kept; None: a new id.

    Raises:
        BodyInvalid: JSON cannot carry the value.
    """
    try:
        payload = encode_finite(value)
    except NO_JSON as error:
        raise BodyInvalid(f"the value of event {event!r} cannot be written as JSON: {error}") from error
    return Message(event_name(event), event_id or uuid.uuid4().hex, payload)
