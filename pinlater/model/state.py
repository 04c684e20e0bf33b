"""The states of a job."""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """Where a job stands; the numbers are the wire contract's ``PinLaterJobState``."""

    PENDING = 0
    IN_PROGRESS = 1
    SUCCEEDED = 2
    FAILED = 3

    @property
    def is_final(self) -> bool:
        """Whether the job is done with, for better or worse."""
        return self >= JobState.SUCCEEDED
