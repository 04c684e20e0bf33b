"""A token that lets one of several processes do something once."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class OnceToken:
    """A token that only one process can acquire; the master creates it before it forks."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self.restore()

    @property
    def is_taken(self) -> bool:
        """Whether a process has acquired it since it was last available."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        return not poll.poll(0)

    def acquire(self) -> bool:
        """Return True for the first caller among all processes."""
        try:
            return bool(os.read(self._reader, 1))
        except BlockingIOError:
            return False

    def restore(self) -> None:
        """Make the token available again."""
        if self.is_taken:
            with suppress(OSError):
                os.write(self._writer, b"1")
