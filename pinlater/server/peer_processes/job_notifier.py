"""Tells the other processes of a server that jobs of a queue have become claimable.

For stores that tell nobody anything. Nothing depends on a message: whoever waits looks for itself, too, only later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

SUFFIX = ".bell"
PAUSE_SECONDS = 0.005
"""Between two messages to the same processes: while jobs come in a stream, one message stands for many."""

_MOST_BYTES = 32_768
_GREETING = b""


class Bell:
    """A socket in the private folder, on which the other processes are heard.

    Args:
        folder: shared with the other processes of this server, and with nobody else.
        heard: takes a queue, and when its new job falls due, in epoch milliseconds; None: now.
    """

    def __init__(self, folder: Path, heard: Callable[[str, int | None], None]) -> None:
        self._folder = folder
        self._path = folder / f"{os.getpid()}{SUFFIX}"
        self._heard = heard
        self._others: list[str] = []
        self._news: dict[str, int | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def start(self) -> None:
        """Begin to listen, and let the others know of it."""
        self._path.unlink(missing_ok=True)  # of a process before that had our number
        self._socket.bind(str(self._path))
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        self._look_for_others()
        self._send(_GREETING)

    def close(self) -> None:
        """Neither hear nor tell any more."""
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def tell(self, queue: str, due_ms: int | None = None) -> None:
        """Tell the others: at once, or with all the news of the next few milliseconds."""
        if not self._others:
            return
        told = self._news.get(queue, due_ms)
        self._news[queue] = None if told is None or due_ms is None else min(told, due_ms)
        if self._timer is None:
            self._ring()

    def _ring(self) -> None:
        self._timer = None
        if self._news:
            for message in _messages(self._news.items()):
                self._send(message)
            self._news.clear()
            self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._ring)

    def _send(self, message: bytes) -> None:
        for other in list(self._others):
            try:
                self._socket.sendto(message, other)
            except (ConnectionRefusedError, FileNotFoundError):
                self._others.remove(other)
                Path(other).unlink(missing_ok=True)  # its process was killed
            except OSError:  # it has much to read already
                continue

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._take(self._socket.recv(_MOST_BYTES * 2))

    def _take(self, message: bytes) -> None:
        if message == _GREETING:
            self._look_for_others()
        for line in message.decode().splitlines():
            due, _, queue = line.partition(" ")
            self._heard(queue, int(due) if due else None)

    def _look_for_others(self) -> None:
        self._others = [str(path) for path in self._folder.glob(f"*{SUFFIX}") if path != self._path]


def _messages(news: Iterable[tuple[str, int | None]]) -> list[bytes]:
    """Return the news as few messages, none of them longer than what a socket takes."""
    messages = [bytearray()]
    for queue, due_ms in news:
        line = f"{'' if due_ms is None else due_ms} {queue}\n".encode()
        if len(messages[-1]) + len(line) > _MOST_BYTES:
            messages.append(bytearray())
        messages[-1] += line
    return [bytes(message) for message in messages]
