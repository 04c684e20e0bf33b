"""The time limit of a running step."""

from __future__ import annotations

from time import monotonic

from pinlater.errors import StepTimeout


class StepDeadline:
    """When a running step has to end.

    Args:
        step: name under which the step is recorded.
        seconds: its time limit, from now on.

    Attributes:
        has_come: whether ``StepTimeout`` was raised for it.
    """

    __slots__ = ("_at", "_seconds", "_step", "has_come")

    def __init__(self, step: str, seconds: float) -> None:
        self._step, self._seconds = step, seconds
        self._at = monotonic() + seconds
        self.has_come = False

    def comes(self, now: float) -> bool:
        """Return whether the deadline comes at ``now``, on the monotonic clock; it comes only once."""
        if self.has_come or now < self._at:
            return False
        self.has_come = True
        return True

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until it comes; None if it has."""
        return None if self.has_come else max(self._at - now, 0.0)

    def error(self) -> StepTimeout:
        """Return the exception to raise in the job."""
        error = StepTimeout(f"step {self._step!r} ran for longer than its timeout of {self._seconds:g} s")
        error.step = self._step
        return error
