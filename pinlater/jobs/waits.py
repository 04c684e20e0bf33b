"""What a sleeping job waits for, in words."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.jobs.events import event_in
from pinlater.model.messages import MessageWait


def waits_text(waits: Iterable[MessageWait]) -> str:
    """Return what a job waits for: ``event approval, 12 jobs of call resize``."""
    return ", ".join(map(_wait_text, waits))


def _wait_text(wait: MessageWait) -> str:
    event = event_in(wait.name)
    if event is not None:
        return f"event {event}"
    call = wait.name.rpartition("/")[2]
    return f"the job of call {call}" if wait.number == 1 else f"{wait.number:,} jobs of call {call}"
