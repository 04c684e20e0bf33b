"""Lets a thread wait for time, for sockets and for being woken, all at once."""

from __future__ import annotations

import os
import select
import threading
from typing import Self


class Waker:
    """A switch that another thread or a signal handler sets, and that ends all waits. It is open as a context."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.RLock()  # a signal handler may interrupt its own thread
        self._pipe: tuple[int, int] | None = None
        self._poll = select.poll()

    def __enter__(self) -> Self:
        with self._lock:
            self._pipe = os.pipe()
            self._poll.register(self._pipe[0], select.POLLIN)
            if self.is_set:
                os.write(self._pipe[1], b"!")
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._pipe is not None:
                self._poll.unregister(self._pipe[0])
                for end in self._pipe:
                    os.close(end)
            self._pipe, self.is_set = None, False

    def set(self) -> None:
        """End the present wait and all later ones."""
        with self._lock:
            if not self.is_set and self._pipe is not None:
                os.write(self._pipe[1], b"!")
            self.is_set = True

    def wait(self, seconds: float, file: int | None = None) -> bool:
        """Wait until it is set, or a file descriptor can be read; return whether that was so in time."""
        if file is not None:
            self._poll.register(file, select.POLLIN)
        try:
            return bool(self._poll.poll(max(seconds, 0.0) * 1000))
        finally:
            if file is not None:
                self._poll.unregister(file)
