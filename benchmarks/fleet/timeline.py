"""Simulated time: sleeping processes, in the order in which they wake."""

from __future__ import annotations

import heapq
from collections.abc import Generator
from itertools import count
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[float | None, None, T]
"""What a process does: it yields the seconds to sleep, or None to sleep until it is woken."""


class Process:
    """A simulated process.

    Args:
        timeline: timeline that it runs on.
        steps: what it does.
    """

    __slots__ = ("_is_asleep", "_steps", "_timeline")

    def __init__(self, timeline: Timeline, steps: Steps[None]) -> None:
        self._timeline, self._steps = timeline, steps
        self._is_asleep = False

    def step(self) -> None:
        """Run until the next sleep, or to the end."""
        try:
            delay = next(self._steps)
        except StopIteration:
            return
        if delay is None:
            self._is_asleep = True
        else:
            self._timeline.schedule(self, delay)

    def wake(self) -> None:
        """Wake the process if it sleeps until woken; otherwise do nothing."""
        if self._is_asleep:
            self._is_asleep = False
            self._timeline.schedule(self, 0.0)


class Timeline:
    """Processes and their simulated time.

    Attributes:
        now: seconds since the start.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._due: list[tuple[float, int, Process]] = []

    def start(self, steps: Steps[None]) -> Process:
        """Start a process, which takes its first step now."""
        process = Process(self, steps)
        self.schedule(process, 0.0)
        return process

    def schedule(self, process: Process, delay: float) -> None:
        """Schedule a process's next step in ``delay`` seconds; steps at the same time run in order of these calls."""
        heapq.heappush(self._due, (self.now + delay, next(self._numbers), process))

    def run(self, until: float) -> None:
        """Run all steps up to a time."""
        while self._due and self._due[0][0] <= until:
            self.now, _, process = heapq.heappop(self._due)
            process.step()
        self.now = until
