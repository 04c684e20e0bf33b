"""Wakes the main thread, which waits in ``poll``, from other threads."""

from __future__ import annotations

import os
from contextlib import suppress


class Waker:
    """A pipe that becomes readable when it was rung.

    It keeps no note of having been rung: an exception for a job past its limit may break in between any two lines.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        """Return what is to be waited for."""
        return self._reader

    def wake(self) -> None:
        """Wake the main thread; any thread may."""
        with suppress(BlockingIOError):  # a full pipe wakes it, too
            os.write(self._writer, b"\0")

    def clear(self) -> None:
        """Be ready for the next ring; look for its reasons after that."""
        with suppress(BlockingIOError):
            os.read(self._reader, 1 << 16)

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._reader)
        os.close(self._writer)
