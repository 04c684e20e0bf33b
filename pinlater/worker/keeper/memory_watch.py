"""Remembers how much memory each job process had when its first job had ended, so that growth can be seen."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.model.workers import WorkerProcess


class MemoryWatch:
    """Adds ``memory_at_start_bytes`` to the processes of a report.

    A process takes most of its memory when it loads what its jobs need, with the first of them. What it takes later,
    job after job, is growth.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[int, int | None], int] = {}

    def noted(self, processes: Iterable[WorkerProcess]) -> list[WorkerProcess]:
        """Return the processes with their memory at the start; forget those that have ended."""
        found = list(processes)
        before, self._first = self._first, {}
        return [self._noted(process, before) for process in found]

    def _noted(self, process: WorkerProcess, before: dict[tuple[int, int | None], int]) -> WorkerProcess:
        if process.memory_bytes is None:
            return process
        key = process.pid, process.started_ms  # a process may have the id of one before it
        first = before.get(key, process.memory_bytes)
        if process.ended:
            self._first[key] = first
        return process._replace(memory_at_start_bytes=first)
