"""The interruption of a job that waits for messages, without a process."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.errors import JobSleeps
from pinlater.jobs.waits import waits_text
from pinlater.model.messages import MessageWait

ENDLESS_MS = 32_503_680_000_000
"""Epoch milliseconds in the year 3000, when a job that waits without a limit becomes due."""


class JobWaits(JobSleeps):
    """Raised by ``call``, ``call_all`` and ``wait_for``: the job continues when one of its waits is over.

    Args:
        waits: what it waits for.
        until_ms: when it continues at the latest, epoch milliseconds.
    """

    def __init__(self, waits: Sequence[MessageWait], until_ms: int = ENDLESS_MS) -> None:
        super().__init__(until_ms)
        self.args = (f"waits for {waits_text(waits, ' or ')}",)
        self.waits = tuple(waits)

    @property
    def weight(self) -> float:
        """A sleep wins: a job that continued earlier would treat the sleep as over."""
        return 0.5

    def again(self) -> JobWaits:
        """Return an equal interruption."""
        return JobWaits(self.waits, self.until_ms)

    def joined(self, other: JobWaits) -> JobWaits:
        """Return the interruption of a job that waits for either of the two."""
        return JobWaits((*self.waits, *other.waits), min(self.until_ms, other.until_ms))
