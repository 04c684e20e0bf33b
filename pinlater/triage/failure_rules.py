"""Rules about failures: rates that have risen, and jobs that were given up."""

from __future__ import annotations

from collections.abc import Iterator

from pinlater.triage.findings import Finding, Kind, Severity
from pinlater.triage.readings import Flow, Readings
from pinlater.triage.texts import jobs, share, span
from pinlater.triage.thresholds import Thresholds


def failing(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues of whose attempts more fail than before."""
    for queue in readings.settings:
        flow, before = readings.recently(queue), readings.before.get(queue)
        if (
            flow is None
            or flow.failed < thresholds.failed_attempts
            or flow.failed_share < thresholds.failed_share
            or not _has_risen(flow, before, thresholds)
        ):
            continue
        then = (
            "" if before is None or not before.ended else f"; in the hours before it was {share(before.failed_share)}"
        )
        lost = f" {jobs(flow.given_up)} failed for good." if flow.given_up else ""
        yield Finding(
            Kind.FAILING,
            Severity.CRITICAL if flow.failed_share >= thresholds.failed_critical_share else Severity.WARNING,
            queue,
            f"Jobs of queue {queue} fail",
            f"{flow.failed:,} of {flow.ended:,} attempts in queue {queue} failed within the last {span(flow.seconds)}, "
            f"{share(flow.failed_share)}{then}.{lost}",
            "Look at the errors: was something deployed, or is a service away that the jobs need? "
            "Pause the queue if retries make it worse.",
            f"pinlater scan {queue} --state failed",
            None,
            queue,
            numbers={"failed": flow.failed, "share": flow.failed_share, "given_up": flow.given_up},
        )


def given_up(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues in which many jobs failed for good in the last minutes, and more than before."""
    for queue in readings.settings:
        flow, before = readings.recently(queue), readings.before.get(queue)
        if flow is None or flow.given_up < thresholds.given_up_jobs:
            continue
        usual = 0.0 if before is None else before.given_up / before.seconds * flow.seconds
        if flow.given_up < usual * thresholds.failed_factor:
            continue
        yield Finding(
            Kind.GIVEN_UP,
            Severity.WARNING,
            queue,
            f"Jobs of queue {queue} are given up",
            f"{jobs(flow.given_up)} of queue {queue} failed for good within the last {span(flow.seconds)}. "
            "They are not tried again by themselves.",
            "Look at the errors, mend the cause, and retry the jobs.",
            f"pinlater retry-failed {queue} --newer-than 1h --dry-run",
            None,
            queue,
            numbers={"given_up": flow.given_up},
        )


def _has_risen(flow: Flow, before: Flow | None, thresholds: Thresholds) -> bool:
    if before is None or before.ended < thresholds.failed_attempts:
        return True
    return flow.failed_share >= before.failed_share * thresholds.failed_factor
