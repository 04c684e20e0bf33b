"""The attempts of a job as its worker counts them: without the spare ones that only servers count."""

from __future__ import annotations

from typing import NamedTuple

from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, is_periodic_key, read_recurrence, read_saga


class AttemptCount(NamedTuple):
    """How many attempts are left.

    Attributes:
        left: how many.
        allowed: of how many; fewer than are left if the job was retried by hand.
        is_undoing: whether they are for undoing what the job did before it gave up.
    """

    left: int
    allowed: int
    is_undoing: bool = False

    @property
    def text(self) -> str:
        """The numbers in words."""
        if self.is_undoing:
            return f"{self.left} of {self.allowed} to undo what it did"
        return f"{self.left} of {self.allowed}" if self.left <= self.allowed else f"{self.left}"


def count_attempts(allowed: int, left: int, body: bytes | None, unique: str | None) -> AttemptCount:
    """Return the attempts without spare ones.

    Args:
        allowed: attempts in all, as the server counts them.
        left: attempts left, likewise.
        body: body of the job; None: it is not known, so the spare attempts of a job with something to undo are counted.
        unique: its unique key, by which a periodic job is known even without its body.
    """
    saga = None if body is None else read_saga(body)
    if saga is not None and not saga.why and saga.given == allowed:
        return AttemptCount(max(saga.allowed - (saga.attempt - 1 + allowed - left), 0), saga.allowed)
    is_undoing = saga is not None and bool(saga.why)
    again = None if body is None else read_recurrence(body)
    if not (is_periodic_key(unique) or (again is not None and again.schedule)):
        return AttemptCount(left, allowed, is_undoing)
    own = max(allowed - PERIODIC_SPARE_ATTEMPTS, 1)
    return AttemptCount(max(own - (allowed - left), 0), own, is_undoing)
