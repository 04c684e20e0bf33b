"""Messages to jobs that run inline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pinlater.model.messages import Message, MessageWait, ReceivedMessage


class Mailboxes:
    """Keeps the messages of jobs."""

    def __init__(self) -> None:
        self._received: defaultdict[tuple[str, str], list[ReceivedMessage]] = defaultdict(list)

    def put(self, descriptor: str, message: Message) -> None:
        """Keep a message to a job; a second one with the same name and id is dropped."""
        received = self._received[descriptor, message.name]
        if all(other.id != message.id for other in received):
            received.append(ReceivedMessage(len(received) + 1, message.id, message.payload, message.kind))

    def read(self, descriptor: str, name: str, after: int, limit: int) -> list[ReceivedMessage]:
        """Return messages of a job; see ``MessageLink.read``."""
        return self._received[descriptor, name][after : after + limit]

    def is_fulfilled(self, descriptor: str, waits: Iterable[MessageWait]) -> bool:
        """Return whether one of a job's waits is over."""
        return any(len(self._received[descriptor, name]) >= number for name, number in waits)
