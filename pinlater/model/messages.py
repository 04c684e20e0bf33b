"""Messages to jobs: what a job waits for while it sleeps, and how its children tell it of their end."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

MAX_MESSAGE_NAME_CHARACTERS = 200
"""Longest name or id of a message that every store can index."""

MAX_DROPPED = 10_000
"""Maximum number of messages of one name that a checkpoint deletes; if there are more, the first ones go."""


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
        payload: any bytes: the value of an event; of a child, its result or the end of its custom status.
        kind: what it says.
    """

    name: str
    id: str
    payload: bytes
    kind: int = MessageKind.EVENT


class ReceivedMessage(NamedTuple):
    """A message as its job reads it.

    Attributes:
        number: from 1, counts the messages of its name in the order of their arrival.
        id: see ``Message``.
        payload: its content.
        kind: what it says.
    """

    number: int
    id: str
    payload: bytes
    kind: int


class MessageWait(NamedTuple):
    """Condition that ends a sleep: ``number`` messages of a name have arrived, including those that the job has read.

    Attributes:
        name: name of the messages.
        number: how many, since the job was enqueued.
    """

    name: str
    number: int


class Parent(NamedTuple):
    """The job that waits for the end of another one, its child, which may be in another queue and on another shard.

    Attributes:
        descriptor: address of the parent.
        name: name of the message that it gets when the child has finished.
        position: id of that message: the number of the child among those with this name, from 0.
    """

    descriptor: str
    name: str
    position: int


class CancelledJobs(NamedTuple):
    """Jobs that were recently asked to stop while they were IN_PROGRESS.

    Attributes:
        descriptors: addresses of the jobs.
        asked_ms: server time up to which such requests are included, epoch milliseconds.
    """

    descriptors: list[str]
    asked_ms: int
