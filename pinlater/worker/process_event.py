"""An event that all processes of a worker can check and wait for."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class ProcessEvent:
    """A pipe that becomes readable when the event is set; the master creates it before it forks."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reader

    def set(self) -> None:
        """Set the event."""
        with suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    @property
    def is_set(self) -> bool:
        """Whether the event is set."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        return bool(poll.poll(0))
