"""Tracks the recent load of queues with a latency target, by the counters of the worker's processes."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pinlater.model.descriptor import queue_of
from pinlater.model.workers import QueueLoad
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.keeper.counter_growth import CounterGrowth
from pinlater.worker.shared import Shared

WINDOW_SECONDS = 60.0
"""How far back a load looks: long enough for an average, short enough to follow a burst."""
MOST_LOADS = 200
"""Most queues in one report, whose size is limited."""


class _Totals(NamedTuple):
    """Counts of all queues since the watch began; ``busy_ns`` includes the runs in progress."""

    at_ns: int
    runs: Counter[str]
    busy_ns: Counter[str]


class LoadWatch:
    """Computes the load of each queue over the last minute, from one call to the next.

    Run times count as they pass, not when a run ends, so that a run of an hour adds a minute to each minute.

    Args:
        shared: memory shared by the processes of the worker.
        clock_ns: monotonic nanoseconds.
    """

    def __init__(self, shared: Shared, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._shared = shared
        self._clock_ns = clock_ns
        self._growth = CounterGrowth(shared)
        self._runs: Counter[str] = Counter()
        self._ended_ns: Counter[str] = Counter()
        self._samples: deque[_Totals] = deque()

    def recent(self) -> list[QueueLoad]:
        """Return the loads of the queues with a latency target."""
        rows = [row for _, _, row in self._shared.rows()]
        targets, slots = _served(rows)
        if not targets:
            self._samples.clear()
            return []
        self._count()
        running, now_ns = Counter[str](), self._clock_ns()
        busy_ns = Counter(self._ended_ns)
        for row in rows:
            for job in row.running_jobs():
                queue = queue_of(job.descriptor)
                running[queue] += 1
                busy_ns[queue] += max(now_ns - (job.started_ns or now_ns), 0)
        now = _Totals(now_ns, Counter(self._runs), busy_ns)
        first = self._began(now)
        return [
            QueueLoad(
                queue,
                max(round(1000 * targets[queue]), 1),
                slots[queue],
                running[queue],
                (now_ns - first.at_ns) // 1_000_000,
                now.runs[queue] - first.runs[queue],
                max(busy_ns[queue] - first.busy_ns[queue], 0) // 1_000_000,
            )
            for queue in sorted(targets)[:MOST_LOADS]
        ]

    def _count(self) -> None:
        """Add the runs that have ended since the last call."""
        for (queue, name), counts in self._growth.since_last().items():
            if name:
                self._runs[queue] += sum(counts.buckets)
                self._ended_ns[queue] += int(counts.seconds * 1e9)

    def _began(self, now: _Totals) -> _Totals:
        """Add a sample; return the one at the beginning of the window."""
        samples = self._samples
        samples.append(now)
        while len(samples) > 1 and samples[1].at_ns <= now.at_ns - WINDOW_SECONDS * 1e9:
            samples.popleft()
        return samples[0]


def _served(rows: Iterable[ClaimRow]) -> tuple[dict[str, float], Counter[str]]:
    """Return the latency targets of the queues that have one, in seconds, and how many jobs of each can run at once."""
    targets, slots = dict[str, float](), Counter[str]()
    for row in rows:
        identity = row.identity
        for queue, seconds in identity.targets.items():
            targets[queue] = min(seconds, targets.get(queue, seconds))
            slots[queue] += identity.capacity
    return targets, slots
