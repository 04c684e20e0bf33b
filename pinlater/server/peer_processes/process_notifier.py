"""Notify the other processes of a server that jobs of a queue have become claimable, or running ones are to stop.

No message has to arrive: waiting dequeues also poll, and workers hear of jobs that are to stop when they renew their
claims, only later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.peer_processes.cancellation_message import cancellation_messages
from pinlater.server.peer_processes.notification_batch import NotificationBatch, receive
from pinlater.server.peer_processes.peer_receiver import PeerReceiver
from pinlater.server.peer_processes.poll_message import poll_messages

log = logging.getLogger(__name__)

SUFFIX = ".notify"
_MOST_BYTES = 32_768
_GREETING = b""
_GREETING_RETRY_SECONDS = 0.1


class ProcessNotifier:
    """Sends and receives job notifications over a datagram socket in the private folder.

    Args:
        folder: the private folder of the server's processes.
        receiver: receives what they send.
    """

    def __init__(self, folder: Path, receiver: PeerReceiver) -> None:
        self._folder = folder
        self._path = folder / f"{os.getpid()}{SUFFIX}"
        self._receiver = receiver
        self._others: list[str] = []
        self._batch = NotificationBatch(self._send, _MOST_BYTES)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._greeting_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Bind the socket, and announce this process to the others."""
        self._path.unlink(missing_ok=True)  # left by an earlier process with this pid
        self._socket.bind(str(self._path))
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        self._find_others()
        self._greet(self._others)

    def close(self) -> None:
        """Close the socket and remove it."""
        self._batch.close()
        if self._greeting_timer is not None:
            self._greeting_timer.cancel()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def notify(
        self,
        queue: str,
        due_ms: int | None = None,
        locations: Callable[[], Collection[JobLocation]] = tuple,
        _count: int | None = 1,
    ) -> None:
        """Notify the other processes of a job, at once or together with those of the next few milliseconds."""
        if self._others:
            self._batch.add(queue, due_ms, locations())

    def notify_cancelled(self, descriptors: Sequence[str]) -> None:
        """Notify the other processes of jobs that are asked to stop."""
        for message in cancellation_messages(descriptors, _MOST_BYTES):
            self._send(message)

    def notify_polled(self, poll: PollOfAll, now_ms: int) -> None:
        """Tell the other processes what a poll of all queues has found."""
        for message in poll_messages(poll, now_ms, _MOST_BYTES):
            self._send(message)

    def _greet(self, others: Collection[str]) -> None:
        """Announce this process to others; retry where the buffer is full, or that process would never hear of it."""
        busy = self._send_to(others, _GREETING)
        if busy:
            self._greeting_timer = asyncio.get_running_loop().call_later(_GREETING_RETRY_SECONDS, self._greet, busy)

    def _send(self, message: bytes) -> None:
        self._send_to(self._others, message)

    def _send_to(self, others: Collection[str], message: bytes) -> list[str]:
        """Send a message; return those whose receive buffer is full."""
        full: list[str] = []
        for other in list(others):
            try:
                self._socket.sendto(message, other)
            except (ConnectionRefusedError, FileNotFoundError):
                self._others = [known for known in self._others if known != other]
                Path(other).unlink(missing_ok=True)  # its process was killed
            except OSError:
                full.append(other)
        return full

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._receive(self._socket.recv(_MOST_BYTES * 2))

    def _receive(self, message: bytes) -> None:
        if message == _GREETING:
            self._find_others()
        try:
            receive(message, self._receiver)
        except ValueError:
            log.debug("a message of another version of the server was dropped")

    def _find_others(self) -> None:
        self._others = [str(path) for path in self._folder.glob(f"*{SUFFIX}") if path != self._path]
