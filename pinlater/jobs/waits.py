"""What a sleeping job waits for, in words."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.jobs.events import event_in
from pinlater.model.messages import MessageWait, Parent


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
