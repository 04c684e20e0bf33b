"""States of a job."""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """State of a job; the numbers are those of ``PinLaterJobState`` in the wire contract."""

    PENDING = 0
    IN_PROGRESS = 1
    SUCCEEDED = 2
    FAILED = 3

    @property
    def is_final(self) -> bool:
        """Whether the job has ended: it succeeded, or failed for good."""
        return self >= JobState.SUCCEEDED
