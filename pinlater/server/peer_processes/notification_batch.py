"""Collect job notifications for a few milliseconds, and encode them: in a stream of new jobs, one stands for many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

BATCH_SECONDS = 0.005
"""Time between two messages."""


class NotificationBatch:
    """Sends notifications at once, or together with those of the next few milliseconds.

    Args:
        send: is given each message.
        most_bytes: of a message.
    """

    def __init__(self, send: Callable[[bytes], None], most_bytes: int) -> None:
        self._send = send
        self._most_bytes = most_bytes
        self._unsent: dict[str, int | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, queue: str, due_ms: int | None) -> None:
        """Add that a queue has a new job, and when it is due, in epoch milliseconds; None: now."""
        unsent_ms = self._unsent.get(queue, due_ms)
        self._unsent[queue] = None if unsent_ms is None or due_ms is None else min(unsent_ms, due_ms)
        if self._timer is None:
            self._flush()

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._timer = None
        if self._unsent:
            for message in _messages(self._unsent.items(), self._most_bytes):
                self._send(message)
            self._unsent.clear()
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)


def _messages(jobs: Iterable[tuple[str, int | None]], most_bytes: int) -> list[bytes]:
    """Encode notifications into as few messages as possible, each of ``most_bytes`` at most."""
    messages = [bytearray()]
    for queue, due_ms in jobs:
        line = f"{'' if due_ms is None else due_ms} {queue}\n".encode()
        if len(messages[-1]) + len(line) > most_bytes:
            messages.append(bytearray())
        messages[-1] += line
    return [bytes(message) for message in messages]


def read_message(message: bytes) -> Iterator[tuple[str, int | None]]:
    """Yield the notifications in a message."""
    for line in message.decode().splitlines():
        due, _, queue = line.partition(" ")
        yield queue, int(due) if due else None
