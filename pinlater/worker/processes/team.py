"""What runs several jobs at once beside the main thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Outcome
from pinlater.worker.session.waker import ThreadWaker


class EndedJob(NamedTuple):
    """A job that has ended.

    Attributes:
        batch: it alone.
        outcome: None if it succeeded.
        seconds: how long it ran.
    """

    batch: DequeuedBatch
    outcome: Outcome | None
    seconds: float


class Team(ABC):
    """Its methods are for the main thread. Each batch is one job, at position 0.

    Args:
        places: how many jobs may run at once.
        bell: rung when one has ended.
    """

    def __init__(self, capacity: int, waker: ThreadWaker) -> None:
        self._capacity = capacity
        self._waker = waker
        self._busy = 0
        self._ended: deque[EndedJob] = deque()
        self._breakdown: BaseException | None = None

    @property
    def free(self) -> int:
        """How many more jobs can be started."""
        return self._capacity - self._busy

    @property
    def busy(self) -> int:
        """How many run, or have ended and were not asked for yet."""
        return self._busy

    def start(self, batch: DequeuedBatch) -> None:
        """Start a job; there must be a free place."""
        self._busy += 1
        self._start_job(batch)

    def ended(self) -> Iterator[EndedJob]:
        """Yield the jobs that have ended since the last time.

        Raises:
            BaseException: what went wrong in a thread of ours, outside of any job: this process cannot go on.
        """
        while self._ended:
            self._busy -= 1
            yield self._ended.popleft()
        if self._breakdown is not None:
            raise self._breakdown

    @abstractmethod
    def check(self) -> float | None:
        """Do what the clock says is due; return the seconds until this is to be called again, None for never."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is idle; what is busy is left to end with the process."""

    @abstractmethod
    def _start_job(self, batch: DequeuedBatch) -> None:
        """Start a job."""

    # In the threads of the team

    def _on_ended(self, ended: EndedJob) -> None:
        self._ended.append(ended)
        self._waker.wake()

    def _on_breakdown(self, error: BaseException) -> None:
        self._breakdown = error
        self._waker.wake()
