"""How many jobs to fetch at once, from how long the recent ones ran."""

from __future__ import annotations

from pinlater.worker.claim_table.snapshot import MAX_JOBS

TARGET_SECONDS = 0.05
"""Work per dequeue: long enough to pay for the call, short enough that no job waits behind others for long."""
SHORT_SECONDS = 0.02
"""Jobs shorter than this, or than the way to the server and back, are prefetched; jobs that wait behind longer ones
could start sooner in other workers."""
_WEIGHT = 0.2
_LEAST_SECONDS = 1e-6


class Pace:
    """Estimates run times (rising at once, falling slowly), and from them the number of jobs to fetch.

    Args:
        capacity: how many jobs run at once.

    Attributes:
        limit: jobs to ask for.
        average_seconds: estimate of a job's run time; None before the first.
    """

    def __init__(self, capacity: int = 1) -> None:
        self._capacity = capacity
        self.limit = 1
        self.average_seconds: float | None = None

    def is_below(self, seconds: float) -> bool:
        """Return whether jobs are known to run for less than ``seconds``."""
        return self.average_seconds is not None and self.average_seconds < seconds

    def record(self, jobs: int, seconds: float) -> None:
        """Record that ``jobs`` ran for ``seconds`` together."""
        if jobs <= 0:
            return
        recent = max(seconds / jobs, _LEAST_SECONDS)
        average = self.average_seconds
        if average is None or recent > average:
            self.average_seconds = recent
        else:
            self.average_seconds = average + _WEIGHT * (recent - average)
        fitting = int(TARGET_SECONDS * self._capacity / self.average_seconds)
        self.limit = max(1, min(fitting, MAX_JOBS, 2 * self.limit))
