"""Wakes the main thread, which waits in ``poll``, from other threads."""

from __future__ import annotations

import os
from contextlib import suppress


class ThreadWaker:
    """A pipe that becomes readable when a thread calls ``wake``.

    It has no other state: an exception for a job past its limit may be raised between any two lines.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reader

    def wake(self) -> None:
        """Wake the main thread; may be called in any thread."""
        with suppress(BlockingIOError):  # a full pipe wakes it, too
            os.write(self._writer, b"\0")

    def clear(self) -> None:
        """Clear the pipe; check for work after that."""
        with suppress(BlockingIOError):
            os.read(self._reader, 1 << 16)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._reader)
        os.close(self._writer)
