"""What runs several jobs at once beside the main thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pinlater.worker.session.batch import Batch
from pinlater.worker.session.outcome import Outcome
from pinlater.worker.session.waker import Bell


class Ended(NamedTuple):
    """A job that has ended.

    Attributes:
        batch: it alone.
        outcome: None if it succeeded.
        seconds: how long it ran.
    """

    batch: Batch
    outcome: Outcome | None
    seconds: float


class Team(ABC):
    """Its methods are for the main thread. Each batch is one job, at position 0.

    Args:
        places: how many jobs may run at once.
        bell: rung when one has ended.
    """

    def __init__(self, places: int, bell: Bell) -> None:
        self._places = places
        self._bell = bell
        self._busy = 0
        self._ended: deque[Ended] = deque()
        self._breakdown: BaseException | None = None

    @property
    def free(self) -> int:
        """How many more jobs can be started."""
        return self._places - self._busy

    @property
    def busy(self) -> int:
        """How many run, or have ended and were not asked for yet."""
        return self._busy

    def start(self, batch: Batch) -> None:
        """Start a job; there must be a free place."""
        self._busy += 1
        self._begin(batch)

    def ended(self) -> Iterator[Ended]:
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
    def look(self) -> float | None:
        """Do what the clock says is due; return the seconds until this is to be called again, None for never."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is idle; what is busy is left to end with the process."""

    @abstractmethod
    def _begin(self, batch: Batch) -> None:
        """Start a job."""

    # In the threads of the team

    def _note_end(self, ended: Ended) -> None:
        self._ended.append(ended)
        self._bell.ring()

    def _break_down(self, error: BaseException) -> None:
        self._breakdown = error
        self._bell.ring()
