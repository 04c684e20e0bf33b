"""An event that all threads and processes of a worker can set, check and wait for."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class PipeEvent:
    """A pipe that is readable while the event is set; what several processes share, the master creates before it forks.

    It has no other state: an exception for a job past its limit may be raised between any two lines.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reader

    def set(self) -> None:
        """Set the event."""
        with suppress(BlockingIOError):  # a full pipe is readable, too
            os.write(self._writer, b"\0")

    @property
    def is_set(self) -> bool:
        """Whether the event is set."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        return bool(poll.poll(0))

    def clear(self) -> bool:
        """Clear the event; return whether it was set, which only one of several callers is told."""
        try:
            return bool(os.read(self._reader, 1 << 16))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._reader)
        os.close(self._writer)
