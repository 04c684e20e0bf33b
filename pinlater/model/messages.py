"""Messages to jobs: what a job waits for while it sleeps, and how its children tell it of their end."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

MAX_MESSAGE_NAME_CHARACTERS = 200
"""Longest name or id of a message that every store can index."""

MAX_DROPPED = 10_000
"""Messages of one name that a checkpoint deletes at most; if there are more, the first ones."""


class MessageKind(IntEnum):
    """What a message says; the numbers are those of the wire."""

    EVENT = 0
    SUCCEEDED = 1
    FAILED = 2
    CANCELLED = 3
    DELETED = 4


class Message(NamedTuple):
    """A message to a job that has not finished.

    Attributes:
        name: 1 to 200 characters; a job waits for messages of a name.
        id: 1 to 200 characters; of several messages with the same name and id, only the first is kept.
        payload: any bytes: of an event, as it was sent; of a child, its result, or the end of its custom status.
        kind: what it says.
    """

    name: str
    id: str
    payload: bytes
    kind: int = MessageKind.EVENT


class ReceivedMessage(NamedTuple):
    """A message as its job reads it.

    Attributes:
        number: from 1, in the order of arrival among those of one name.
        id: see ``Message``, like the others.
        payload: its content.
        kind: what it says.
    """

    number: int
    id: str
    payload: bytes
    kind: int


class MessageWait(NamedTuple):
    """Ends a sleep: so many messages of a name have arrived, those included that the job has read.

    Attributes:
        name: of the messages.
        number: how many, since the job was enqueued.
    """

    name: str
    number: int


class Parent(NamedTuple):
    """The job that waits for the end of another one, its child, which may be in another queue and on another shard.

    Attributes:
        descriptor: of the parent.
        name: of the message that it gets when the child has finished.
        position: the id of that message: which of the children with this name it is, from 0.
    """

    descriptor: str
    name: str
    position: int


class CancelledJobs(NamedTuple):
    """Jobs that were asked to stop of late, while they were IN_PROGRESS.

    Attributes:
        descriptors: of the jobs.
        asked_ms: epoch milliseconds of the server: up to then they were asked.
    """

    descriptors: list[str]
    asked_ms: int
