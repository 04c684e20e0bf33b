"""What a sleeping job waits for and until when, for tools that know no jobs."""

from __future__ import annotations

from pinlater.jobs.events import event_in, event_name
from pinlater.jobs.waiting import ENDLESS_MS, awaited_events, call_text, waits_text
from pinlater.model.jobs import JobInfo

__all__ = ["awaited_events", "call_text", "due_ms", "event_in", "event_name", "waits_text"]


def due_ms(info: JobInfo) -> int | None:
    """Return when a job becomes due by itself, epoch milliseconds.

    None for a job that waits without a limit, for a paused periodic job, and if it is unknown.
    """
    return None if info.run_after_ms is None or info.run_after_ms >= ENDLESS_MS else info.run_after_ms
