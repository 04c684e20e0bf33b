"""Tracks recently released jobs of unknown classes, by the counters of the worker's processes."""

from __future__ import annotations

import time

from pinlater.model.workers import UnknownJobs
from pinlater.worker.claim_table.counters import UNKNOWN, Key
from pinlater.worker.keeper.counter_growth import CounterGrowth
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
        self._growth = CounterGrowth(shared)
        self._found: dict[Key, UnknownJobs] = {}

    def recent(self) -> list[UnknownJobs]:
        """Return the classes released within the last minutes, the latest first."""
        now_ms = int(time.time() * 1000)
        for key, counts in self._growth.since_last().items():
            risen = counts.endings[UNKNOWN] if key[1] else 0
            if risen:
                before = self._found[key].returned if key in self._found else 0
                self._found[key] = UnknownJobs(*key, (before or 0) + risen, now_ms)
        oldest_ms = now_ms - 1000 * RECENT_SECONDS
        self._found = {key: jobs for key, jobs in self._found.items() if (jobs.last_ms or 0) > oldest_ms}
        return sorted(self._found.values(), key=lambda jobs: jobs.last_ms or 0, reverse=True)[:_MOST_REPORTED]
