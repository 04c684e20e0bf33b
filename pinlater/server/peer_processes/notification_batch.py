"""Collect job notifications for a few milliseconds and encode them; in a stream of new jobs, one stands for many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.peer_processes.cancellation_message import cancelled_in
from pinlater.server.peer_processes.peer_receiver import PeerReceiver
from pinlater.server.peer_processes.poll_message import poll_in

BATCH_SECONDS = 0.005
"""Time between two messages."""

MOST_LOCATIONS = 16
"""Most locations of one queue in a message; if there are more, none is named."""


class NotificationBatch:
    """Sends notifications at once, or together with those of the next few milliseconds.

    Args:
        send: sends a message.
        most_bytes: largest size of a message.
    """

    def __init__(self, send: Callable[[bytes], None], most_bytes: int) -> None:
        self._send = send
        self._most_bytes = most_bytes
        self._unsent: dict[str, int | None] = {}
        self._locations: dict[str, set[JobLocation] | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        """Add a notification that a queue has new jobs; see ``OnJobs``."""
        if due_ms is None:
            known = self._locations.setdefault(queue, set())
            is_known = known is not None and locations and len(known) + len(locations) <= MOST_LOCATIONS
            self._locations[queue] = {*known, *locations} if is_known and known is not None else None
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
            notifications = ((queue, due_ms, self._locations.get(queue)) for queue, due_ms in self._unsent.items())
            for message in _messages(notifications, self._most_bytes):
                self._send(message)
            self._unsent.clear()
            self._locations.clear()
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)


def notification(queue: str, due_ms: int | None, locations: Collection[JobLocation] | None) -> bytes:
    """Encode that a queue has new jobs; see ``OnJobs``."""
    return f"{'' if due_ms is None else due_ms} {queue} {','.join(map(str, locations or ()))}\n".encode()


def _messages(jobs: Iterable[tuple[str, int | None, Collection[JobLocation] | None]], most_bytes: int) -> list[bytes]:
    """Encode notifications into as few messages as possible, each of ``most_bytes`` at most."""
    messages = [bytearray()]
    for queue, due_ms, locations in jobs:
        line = notification(queue, due_ms, locations)
        if len(messages[-1]) + len(line) > most_bytes:
            messages.append(bytearray())
        messages[-1] += line
    return [bytes(message) for message in messages]


def receive(message: bytes, receiver: PeerReceiver) -> None:
    """Decode a message, and pass it to the receiver.

    Raises:
        ValueError: it is of no known kind.
    """
    cancelled = cancelled_in(message)
    if cancelled is not None:
        receiver.on_cancelled(cancelled)
        return
    news = poll_in(message)
    if news is not None:
        receiver.on_poll(news)
        return
    for queue, due_ms, locations in read_message(message):
        receiver.on_remote_jobs(queue, due_ms, locations)


def read_message(message: bytes) -> Iterator[tuple[str, int | None, list[JobLocation]]]:
    """Yield the notifications in a message; see ``OnJobs``."""
    for line in message.decode().splitlines():
        due, queue, locations = line.split(" ")
        yield (
            queue,
            int(due) if due else None,
            [JobLocation.parse(location) for location in locations.split(",") if location],
        )
