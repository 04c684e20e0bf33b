"""Rules about periodic jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pinlater.model.schedule_words import schedule_in_words
from pinlater.triage.findings import Finding, Kind, Severity
from pinlater.triage.readings import Readings
from pinlater.triage.texts import shortened, span
from pinlater.triage.thresholds import Thresholds

if TYPE_CHECKING:
    from pinlater.client.periodic import PeriodicJob


def periodic_failed(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find periodic jobs whose last run failed in all its attempts, or whose current run has kept failing for long."""
    for job in readings.periodic:
        what = _failed(job, readings, thresholds)
        if not what:
            continue
        last, name = job.last_failure, shortened(job.name, 80)
        error = "" if last is None else f" with {shortened(last.error)}"
        schedule = shortened(schedule_in_words(job.schedule), 60)
        yield Finding(
            Kind.PERIODIC_FAILED,
            Severity.WARNING,
            f"{job.queue} {job.name}",
            f"The periodic job {name} fails",
            f"The periodic job {name} in queue {job.queue} ({schedule}) failed in {what}{error}.",
            "Mend the cause; it runs again at its next time, or at once by pinlater run-now.",
            f"pinlater run-now {job.info.descriptor}",
            None if last is None else last.at_ms,
            job.queue,
            job.name,
            numbers={"failures": job.failures},
            affected=1,
        )


def _failed(job: PeriodicJob, readings: Readings, thresholds: Thresholds) -> str:
    """Return in which runs or attempts a job failed, in words; empty if in none, or if it may still succeed in time."""
    if job.failures:
        return "its last run" if job.failures == 1 else f"its last {job.failures} runs"
    age = readings.age_seconds(job.due_ms)
    if not job.is_retrying or age < thresholds.periodic_late_seconds:
        return ""
    tried = job.info.attempts_allowed - job.info.attempts_remaining
    return f"all {tried} attempts of the run that was due {span(age)} ago"


def periodic_late(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find periodic jobs that should have started, in queues that are neither paused nor without workers."""
    for job in readings.periodic:
        late, settings = readings.age_seconds(job.due_ms), readings.settings.get(job.queue)
        if (
            late < thresholds.periodic_late_seconds
            or job.late_ms(readings.at_ms) < thresholds.periodic_late_seconds * 1000
            or settings is None
            or settings.is_paused
            or not readings.serving(job.queue)
        ):
            continue
        name = shortened(job.name, 80)
        yield Finding(
            Kind.PERIODIC_LATE,
            Severity.WARNING,
            f"{job.queue} {job.name}",
            f"The periodic job {name} is late",
            f"The periodic job {name} in queue {job.queue} should have run {span(late)} ago, and has not started.",
            "Start more workers, or give it a higher priority or a queue of its own.",
            f"pinlater periodic {job.queue}",
            job.due_ms,
            job.queue,
            job.name,
            numbers={"late_seconds": late},
            affected=1,
        )
