"""Something that happens once, for all processes of a worker to see and to wait for."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class Latch:
    """A pipe that is readable once it is set, and stays so; made by the master before it forks."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        """Return what is to be waited for."""
        return self._reader

    def set(self) -> None:
        """Let it have happened."""
        with suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    @property
    def is_set(self) -> bool:
        """Whether it has happened."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        return bool(poll.poll(0))
