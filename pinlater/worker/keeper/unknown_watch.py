"""Tracks recently released jobs that wait for other code or for a queue, by the counters of its processes."""

from __future__ import annotations

import time
from typing import NamedTuple

from pinlater.model.workers import UnknownJobs
from pinlater.worker.claim_table.counters import MISMATCH, NO_QUEUE, UNKNOWN, Key
from pinlater.worker.keeper.counter_growth import CounterGrowth
from pinlater.worker.shared import Shared

RECENT_SECONDS = 600.0
"""Longer than any such job waits before a worker gets it again."""
_MOST_REPORTED = 32


class ReturnedJobs(NamedTuple):
    """Jobs released within the last minutes, by class, the latest first.

    Attributes:
        unknown: no class of the worker can read them.
        unfitting: their recorded steps do not fit the code.
        queueless: they enqueue others in a queue that does not exist.
    """

    unknown: list[UnknownJobs]
    unfitting: list[UnknownJobs]
    queueless: list[UnknownJobs]


class UnknownWatch:
    """Records when the counts of released jobs rise.

    Args:
        shared: memory shared by the processes of the worker.
        generation: how many reloads came before; what older processes release, the new code may know.
    """

    def __init__(self, shared: Shared, generation: int = 0) -> None:
        self._growth = CounterGrowth(shared, generation)
        self._found: dict[str, dict[Key, UnknownJobs]] = {UNKNOWN: {}, MISMATCH: {}, NO_QUEUE: {}}

    def recent(self) -> ReturnedJobs:
        """Return the jobs released within the last minutes."""
        now_ms = int(time.time() * 1000)
        for key, counts in self._growth.since_last().items():
            for ending, found in self._found.items():
                risen = counts.endings[ending] if key[1] else 0
                if risen:
                    before = found.get(key, UnknownJobs(*key, 0, None, now_ms))
                    found[key] = before._replace(returned=(before.returned or 0) + risen, last_ms=now_ms)
        return ReturnedJobs(*(self._recent(ending, now_ms) for ending in self._found))

    def _recent(self, ending: str, now_ms: int) -> list[UnknownJobs]:
        oldest_ms = now_ms - 1000 * RECENT_SECONDS
        found = {key: jobs for key, jobs in self._found[ending].items() if (jobs.last_ms or 0) > oldest_ms}
        self._found[ending] = found
        return sorted(found.values(), key=lambda jobs: jobs.last_ms or 0, reverse=True)[:_MOST_REPORTED]
