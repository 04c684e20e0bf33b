"""Lets a thread wait for a wake-up, a file descriptor or a timeout, whichever comes first."""

from __future__ import annotations

import os
import select
import threading
from typing import Self


class Waker:
    """A flag that another thread or a signal handler sets to end all waits; a context manager."""

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
        """End the current wait and all later ones."""
        with self._lock:
            if not self.is_set and self._pipe is not None:
                os.write(self._pipe[1], b"!")
            self.is_set = True

    def wait(self, seconds: float, file: int | None = None) -> bool:
        """Wait until it is set or ``file`` is readable, at most ``seconds``; return whether either happened."""
        if file is not None:
            self._poll.register(file, select.POLLIN)
        try:
            return bool(self._poll.poll(max(seconds, 0.0) * 1000))
        finally:
            if file is not None:
                self._poll.unregister(file)
