"""What a sleeping job waits for, for tools that know no jobs."""

from __future__ import annotations

from pinlater.jobs.events import event_in, event_name
from pinlater.jobs.waits import awaited_events, call_text, waits_text

__all__ = ["awaited_events", "call_text", "event_in", "event_name", "waits_text"]
