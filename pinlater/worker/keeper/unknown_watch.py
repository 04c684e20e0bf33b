"""Tracks recently released jobs of unknown classes, by the counters of the worker's processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from pinlater.model.workers import UnknownJobs
from pinlater.worker.claim_table.counters import UNKNOWN, Key, RunCounts
from pinlater.worker.shared import Shared

RECENT_SECONDS = 600.0
"""Longer than any such job waits before a worker gets it again."""
_MOST_REPORTED = 32


class UnknownWatch:
    """Records when the counts of unknown jobs rise.

    Args:
        shared: memory shared by the processes of the worker.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._counted: Counter[Key] = Counter()
        self._found: dict[Key, UnknownJobs] = {}

    def recent(self) -> list[UnknownJobs]:
        """Return the classes released within the last minutes, the latest first."""
        now_ms = int(time.time() * 1000)
        counted = Counter[Key]()
        for key, number in self._counts():
            counted[key] += number
        for key, number in counted.items():
            risen = number - self._counted[key]
            if risen > 0:  # the count falls when a process ends
                before = self._found[key].returned if key in self._found else 0
                self._found[key] = UnknownJobs(*key, (before or 0) + risen, now_ms)
        self._counted = counted
        oldest_ms = now_ms - 1000 * RECENT_SECONDS
        self._found = {key: jobs for key, jobs in self._found.items() if (jobs.last_ms or 0) > oldest_ms}
        return sorted(self._found.values(), key=lambda jobs: jobs.last_ms or 0, reverse=True)[:_MOST_REPORTED]

    def _counts(self) -> Iterator[tuple[Key, int]]:
        for places in self._shared.row_numbers.values():
            for number in self._shared.claim_table.used(places):
                for key, numbers in self._shared.counters.of_process(number).rows():
                    if key[1] and (found := RunCounts(numbers).endings[UNKNOWN]):
                        yield key, found
