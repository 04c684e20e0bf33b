"""When a rescheduled or periodic job runs next."""

from __future__ import annotations

import math
from datetime import datetime
from typing import NamedTuple, Protocol

from pinlater.jobs.times import END_OF_TIME, check_seconds, epoch_seconds


class NextRunPlan(Protocol):
    """Knows when a job runs next."""

    def due_ms(self, now_seconds: float) -> int:
        """Return the epoch milliseconds of the next run, given that the attempt ends at ``now_seconds``."""


class NextRun(NamedTuple):
    """The arguments of ``JobContext.reschedule``; exactly one is not None.

    Attributes:
        after: seconds, counted from the end of the attempt.
        at: epoch seconds.
    """

    after: float | None
    at: float | None

    @classmethod
    def of(cls, after: float | None, at: datetime | float | None) -> NextRun:
        """Check the arguments.

        Raises:
            TypeError: ``after`` is no number, or ``at`` neither a datetime nor a number.
            ValueError: both or neither are given, or the time is out of range.
        """
        if (after is None) == (at is None):
            raise ValueError("reschedule() takes after=seconds or at=moment; give one of them")
        if after is not None:
            check_seconds(after, "reschedule(after=...)")
            if not 0 <= after < END_OF_TIME:
                raise ValueError(f"reschedule(after={after}) takes seconds; they cannot be negative or endless")
            return cls(float(after), None)
        assert at is not None
        moment = epoch_seconds(at, "reschedule(at=...)")
        if moment < -END_OF_TIME:
            raise ValueError(f"reschedule(at={at}) is in the far past")
        return cls(None, float(moment))

    def due_ms(self, now_seconds: float) -> int:
        """Return the epoch milliseconds of the next run, given that the attempt ends at ``now_seconds``."""
        if self.at is not None:
            return math.ceil(self.at * 1000)
        return math.ceil((now_seconds + (self.after or 0)) * 1000)
