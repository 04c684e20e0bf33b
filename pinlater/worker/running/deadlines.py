"""Hard limits of concurrent jobs: their process is killed at the earliest deadline."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from os import getpid
from threading import Lock

from pinlater.worker.running.limits import KillAt
from pinlater.worker.running.run_limits import RunLimits

_MOST_DEAD = 64


class Deadlines:
    """Passes the earliest deadline to the master; safe to use from any thread.

    Args:
        kill_at: called with the earliest deadline, or None if there is none any more.
    """

    def __init__(self, kill_at: KillAt) -> None:
        self._kill_at = kill_at
        self._lock = Lock()
        self._numbers = count()
        self._live: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self._notified: float | None = None

    def add(self, moment: float) -> int:
        """Set a deadline on the monotonic clock; return its number."""
        with self._lock:
            number = next(self._numbers)
            self._set(number, moment)
            return number

    def move(self, number: int, moment: float) -> None:
        """Move a deadline."""
        with self._lock:
            if number in self._live:
                self._set(number, moment)

    def remove(self, number: int) -> None:
        """Remove a deadline."""
        with self._lock:
            self._live.pop(number, None)
            self._forget_dead()
            self._notify()

    @contextmanager
    def enforce(self, run_limits: RunLimits) -> Iterator[None]:
        """Enforce the deadline of a job that runs in the block, as its limits move it, and remove it at the end."""
        pid = getpid()
        number = self.add(run_limits.kill_at)
        run_limits.begin(partial(self.move, number))
        try:
            yield
        finally:
            if getpid() == pid:  # a fork of the job must not lift its limit
                run_limits.end()
                self.remove(number)

    def _set(self, number: int, moment: float) -> None:
        # In this order: a soft limit may be raised anywhere here, and one of the job's deadlines has to hold.
        heapq.heappush(self._heap, (moment, number))
        self._live[number] = moment
        self._forget_dead()
        self._notify()

    def _forget_dead(self) -> None:
        if len(self._heap) > 2 * len(self._live) + _MOST_DEAD:
            self._heap = [(moment, number) for number, moment in self._live.items()]
            heapq.heapify(self._heap)

    def _notify(self) -> None:
        heap, live = self._heap, self._live
        while heap and live.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        earliest = heap[0][0] if heap else None
        if earliest != self._notified:
            self._notified = earliest
            self._kill_at(earliest)
