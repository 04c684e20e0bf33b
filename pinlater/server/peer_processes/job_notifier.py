"""Notify the other processes of a server that jobs of a queue have become claimable.

Used with stores that send no notifications themselves. No message has to arrive: waiting dequeues also poll, only
later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

SUFFIX = ".notify"
BATCH_SECONDS = 0.005
"""Time between two messages: in a stream of new jobs, one message stands for many jobs."""

_MOST_BYTES = 32_768
_GREETING = b""


class JobNotifier:
    """Sends and receives job notifications over a datagram socket in the private folder.

    Args:
        folder: private to the processes of this server.
        on_jobs: receives a queue and when its new job is due, in epoch milliseconds; None: now.
    """

    def __init__(self, folder: Path, on_jobs: Callable[[str, int | None], None]) -> None:
        self._folder = folder
        self._path = folder / f"{os.getpid()}{SUFFIX}"
        self._on_jobs = on_jobs
        self._others: list[str] = []
        self._unsent: dict[str, int | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def start(self) -> None:
        """Bind the socket, and announce this process to the others."""
        self._path.unlink(missing_ok=True)  # left by an earlier process with this pid
        self._socket.bind(str(self._path))
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        self._find_others()
        self._send(_GREETING)

    def close(self) -> None:
        """Close the socket and remove it."""
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def notify(self, queue: str, due_ms: int | None = None) -> None:
        """Notify the other processes of a job, at once or together with those of the next few milliseconds."""
        if not self._others:
            return
        unsent_ms = self._unsent.get(queue, due_ms)
        self._unsent[queue] = None if unsent_ms is None or due_ms is None else min(unsent_ms, due_ms)
        if self._timer is None:
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        if self._unsent:
            for message in messages_of(self._unsent.items(), _MOST_BYTES):
                self._send(message)
            self._unsent.clear()
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)

    def _send(self, message: bytes) -> None:
        for other in list(self._others):
            try:
                self._socket.sendto(message, other)
            except (ConnectionRefusedError, FileNotFoundError):
                self._others.remove(other)
                Path(other).unlink(missing_ok=True)  # its process was killed
            except OSError:  # its receive buffer is full
                continue

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._receive(self._socket.recv(_MOST_BYTES * 2))

    def _receive(self, message: bytes) -> None:
        if message == _GREETING:
            self._find_others()
        for queue, due_ms in read_message(message):
            self._on_jobs(queue, due_ms)

    def _find_others(self) -> None:
        self._others = [str(path) for path in self._folder.glob(f"*{SUFFIX}") if path != self._path]


def messages_of(jobs: Iterable[tuple[str, int | None]], most_bytes: int) -> list[bytes]:
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
