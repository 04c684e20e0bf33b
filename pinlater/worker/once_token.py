"""A token that lets one of several processes do something once."""

from __future__ import annotations

from pinlater.worker.pipe_event import PipeEvent


class OnceToken:
    """A token that only one process can acquire; the master creates it before it forks."""

    def __init__(self) -> None:
        self._available = PipeEvent()
        self._available.set()

    @property
    def is_taken(self) -> bool:
        """Whether a process has acquired it since it was last available."""
        return not self._available.is_set

    def acquire(self) -> bool:
        """Return True for the first caller among all processes."""
        return self._available.clear()

    def restore(self) -> None:
        """Make the token available again."""
        self._available.set()
