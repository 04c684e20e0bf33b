"""Sums up for the server how the attempts of each class ended: the server does not know classes.

This costs jobs nothing: the counters exist for the metrics, and what they have grown by since the last time is sent.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from pinlater.model.statistics import RunStatistics, Spread, bucket_of
from pinlater.worker.claim_table.counters import Key, ProcessCounters, RunCounts

INTERVAL_SECONDS = 3.0
"""Shortest time between two reports of a process."""

Reports = dict[str, list[RunStatistics]]
"""Run statistics by queue."""


class RunReporter:
    """Computes what the counters of a process have grown by since the last report to the server.

    Args:
        counters: counters of the process.
        is_known: tells whether the server is one of ours: others might not take a request without acks.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        counters: ProcessCounters,
        is_known: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters = counters
        self._is_known = is_known
        self._clock = clock
        self._due_at = clock() + INTERVAL_SECONDS
        self._before: dict[Key, RunCounts] = {}
        self._given_up: Counter[Key] = Counter()
        self._waits: defaultdict[Key, Counter[int]] = defaultdict(Counter)

    def add_given_up(self, queue: str, kind: int) -> None:
        """Add a job that has failed for good."""
        self._given_up[queue, self._counters.name_of(kind)] += 1

    def add_wait(self, queue: str, kind: int, milliseconds: float) -> None:
        """Add how long a job had been due when it started."""
        self._waits[queue, self._counters.name_of(kind)][bucket_of(milliseconds)] += 1

    def make_due(self) -> None:
        """Let the next ``take`` return everything, however soon it comes."""
        self._due_at = 0.0

    def take(self) -> Reports:
        """Return the run statistics to send now; usually none."""
        now = self._clock()
        if now < self._due_at or not self._is_known():
            return {}
        self._due_at = now + INTERVAL_SECONDS
        found: Reports = {}
        for key, numbers in self._counters.rows():
            queue, name = key
            before, counts = self._before.get(key) or RunCounts(), RunCounts(numbers)
            if not name or numbers == before.numbers:
                continue
            self._before[key] = counts
            found.setdefault(queue, []).append(
                RunStatistics(
                    name,
                    counts.succeeded - before.succeeded,
                    counts.failed - before.failed,
                    self._given_up.pop(key, 0),
                    Spread(self._waits.pop(key, {})),
                    Spread(_growth(before.buckets, counts.buckets)),
                )
            )
        return found


def _growth(before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    pairs: Iterable[tuple[int, int]] = zip(before, after, strict=True)
    return {bucket: now - then for bucket, (then, now) in enumerate(pairs) if now > then}
