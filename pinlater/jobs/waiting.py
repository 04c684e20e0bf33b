"""The interruption of a job that waits for messages, without a process, and what it waits for in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pinlater.errors import JobSleeps
from pinlater.jobs.events import event_in
from pinlater.model.messages import MessageWait, Parent

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


def waits_text(waits: Iterable[MessageWait], between: str = ", ") -> str:
    """Return what a job waits for: ``event approval, 12 jobs of call resize``."""
    return between.join(map(_wait_text, waits))


def awaited_events(waits: Iterable[MessageWait]) -> list[str]:
    """Return the names of the events among what a job waits for."""
    return [event for wait in waits if (event := event_in(wait.name)) is not None]


def call_text(parent: Parent) -> str:
    """Return which call of its parent a job belongs to: ``call resize``."""
    return f"call {_call_in(parent.name)}"


def _wait_text(wait: MessageWait) -> str:
    event = event_in(wait.name)
    if event is not None:
        return f"event {event}"
    jobs = "the job" if wait.number == 1 else f"{wait.number:,} jobs"
    return f"{jobs} of call {_call_in(wait.name)}"


def _call_in(name: str) -> str:
    """Return the name that a job has given to its call, from the name of the messages: ``call/<run>/<name>``."""
    return name.split("/", 2)[-1]
