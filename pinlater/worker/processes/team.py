"""Runs several jobs at once outside the main thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Outcome


class EndedJob(NamedTuple):
    """A job that has ended.

    Attributes:
        batch: its batch, which has no other job.
        outcome: None if it succeeded without a result.
        seconds: how long it ran.
    """

    batch: DequeuedBatch
    outcome: Outcome | None
    seconds: float


class Team(ABC):
    """Runs batches of one job each; its methods are for the main thread.

    Args:
        capacity: how many jobs may run at once.
        waker: wakes the main thread when a job has ended.
    """

    def __init__(self, capacity: int, waker: PipeEvent) -> None:
        self._capacity = capacity
        self._waker = waker
        self._busy = 0
        self._ended: deque[EndedJob] = deque()
        self._breakdown: BaseException | None = None

    @property
    def free(self) -> int:
        """Number of jobs that can be started."""
        return self._capacity - self._busy

    @property
    def busy(self) -> int:
        """Number of jobs that run, or have ended and were not collected yet."""
        return self._busy

    def start(self, batch: DequeuedBatch) -> None:
        """Start a job; ``free`` must not be 0."""
        self._busy += 1
        self._start_job(batch)

    def ended(self) -> Iterator[EndedJob]:
        """Yield the jobs that have ended since the last time.

        Raises:
            BaseException: an error in a thread of the team outside any job; this process cannot go on.
        """
        while self._ended:
            self._busy -= 1
            yield self._ended.popleft()
        if self._breakdown is not None:
            raise self._breakdown

    @abstractmethod
    def check(self) -> float | None:
        """Run checks that are due; return the seconds until the next call, None for never."""

    @abstractmethod
    def close(self) -> None:
        """Stop idle threads; busy ones end with the process."""

    @abstractmethod
    def _start_job(self, batch: DequeuedBatch) -> None:
        """Start a job."""

    # In the threads of the team

    def _on_ended(self, ended: EndedJob) -> None:
        self._ended.append(ended)
        self._waker.set()

    def _on_breakdown(self, error: BaseException) -> None:
        self._breakdown = error
        self._waker.set()
