"""The tasks and threads of a job that wait for messages."""

from __future__ import annotations

import asyncio
from threading import current_thread
from weakref import WeakSet


class WaitingTasks:
    """Knows which tasks wait; outside of tasks, which threads."""

    def __init__(self) -> None:
        self._tasks: WeakSet[object] = WeakSet()

    def add_caller(self) -> None:
        """Add the calling task."""
        self._tasks.add(_current_task())

    def have_caller(self) -> bool:
        """Return whether the calling task waits."""
        return _current_task() in self._tasks


def _current_task() -> object:
    try:
        return asyncio.current_task() or current_thread()
    except RuntimeError:  # no loop runs here
        return current_thread()
