"""Rules about failures: jobs that kill their processes, retries, rising failure rates, jobs that were given up."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pinlater.model.failure_groups import FailureGroup
from pinlater.model.plural import plural
from pinlater.triage.findings import Finding, Kind, Severity
from pinlater.triage.readings import Flow, Readings
from pinlater.triage.texts import share, shortened, span
from pinlater.triage.thresholds import Thresholds

_CRASH = re.compile(r"crash #|crash \d")
"""Beginning of the error of a job whose process died while running it."""


def poison(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find job classes whose jobs kill the processes that run them; one finding per queue and class."""
    told: set[tuple[str, str]] = set()
    for group in readings.groups:
        place = group.queue, group.job
        if place in told or not _CRASH.match(group.error) or not _is_recent(group, readings, thresholds):
            continue
        if group.queue not in readings.settings:
            continue
        told.add(place)
        name = shortened(group.job, 80) or "a class that is not known"
        yield Finding(
            Kind.POISON,
            Severity.CRITICAL,
            f"{group.queue} {group.job}",
            f"Jobs of queue {group.queue} kill their processes",
            f"{plural(group.jobs)} of {name} in queue {group.queue} killed the process that ran it, the last "
            f"{_ago(group, readings)}: {shortened(group.example)}. A job is given up after three crashes.",
            "Look at how the processes ended: by a signal, or for lack of memory. Mend the class before you retry.",
            f"pinlater scan {group.queue} --state failed --error crash",
            group.first_ms,
            group.queue,
            group.job or None,
            group.id,
            numbers={"jobs": group.jobs},
            affected=group.jobs,
        )


def retrying(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues in which many jobs have failed and wait for another attempt, as in an outage of a dependency."""
    for queue in readings.settings:
        groups = [
            group
            for group in readings.groups_of(queue)
            if group.retrying and _is_recent(group, readings, thresholds) and not _CRASH.match(group.error)
        ]
        waiting, lost = sum(group.retrying for group in groups), sum(group.given_up for group in groups)
        if waiting < thresholds.retrying_jobs or waiting < lost:  # where most are given up, another rule says so
            continue
        flow = readings.recently(queue)
        hardly_works = flow is not None and flow.failed_share >= thresholds.failed_critical_share
        is_critical = hardly_works or waiting >= thresholds.retrying_critical_jobs
        most = max(groups, key=lambda group: group.retrying)
        more = len(groups) - 1
        others = f" So do jobs with {more} other {'error' if more == 1 else 'errors'}." if more else ""
        yield Finding(
            Kind.RETRYING,
            Severity.CRITICAL if is_critical else Severity.WARNING,
            queue,
            f"Jobs of queue {queue} fail and are tried again",
            f"{plural(waiting)} of queue {queue} have failed and wait for another attempt, {most.retrying:,} of them "
            f"with {_error(most)}, the last {_ago(most, readings)}.{others}",
            "See whether a service that they need is away. The jobs go on by themselves when it is back.",
            f"pinlater scan {queue} --retrying",
            min(group.first_ms for group in groups),
            queue,
            most.job or None,
            most.id,
            numbers={"jobs": waiting},
            affected=waiting,
        )


def failing(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues in which a larger share of attempts fails than before."""
    for queue in readings.settings:
        flow, before = readings.recently(queue), _comparable(readings.before.get(queue), thresholds)
        if (
            flow is None
            or flow.failed < thresholds.failed_attempts
            or flow.failed_share < thresholds.failed_share
            or (before is not None and flow.failed_share < before.failed_share * thresholds.failed_factor)
        ):
            continue
        then = "" if before is None else f"; in the hours before it was {share(before.failed_share)}"
        lost = f" {plural(flow.given_up)} failed for good." if flow.given_up else ""
        finding = Finding(
            Kind.FAILING,
            Severity.CRITICAL if flow.failed_share >= thresholds.failed_critical_share else Severity.WARNING,
            queue,
            f"Jobs of queue {queue} fail",
            f"{flow.failed:,} of {flow.ended:,} attempts in queue {queue} failed within the last {span(flow.seconds)}, "
            f"{share(flow.failed_share)}{then}.{lost}",
            "Look at the errors: was something deployed, or is a service away that the jobs need? "
            "Pause the queue if retries make it worse.",
            f"pinlater failing {queue}",
            queue=queue,
            numbers={"failed": flow.failed, "share": flow.failed_share, "given_up": flow.given_up},
            affected=flow.failed,
        )
        yield _with_group(finding, _largest(readings, queue, thresholds))


def given_up(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues in which many jobs failed for good in the last minutes, and more than before."""
    for queue in readings.settings:
        flow, before = readings.recently(queue), readings.before.get(queue)
        if flow is None or flow.given_up < thresholds.given_up_jobs:
            continue
        usual = 0.0 if before is None else before.given_up / before.seconds * flow.seconds
        if flow.given_up < usual * thresholds.failed_factor:
            continue
        finding = Finding(
            Kind.GIVEN_UP,
            Severity.WARNING,
            queue,
            f"Jobs of queue {queue} are given up",
            f"{plural(flow.given_up)} of queue {queue} failed for good within the last {span(flow.seconds)}. "
            "They are not tried again by themselves.",
            "Look at the errors, mend the cause, and retry the jobs.",
            f"pinlater retry-failed {queue} --newer-than 1h --dry-run",
            queue=queue,
            numbers={"given_up": flow.given_up},
            affected=flow.given_up,
        )
        yield _with_group(finding, _largest(readings, queue, thresholds))


def _comparable(before: Flow | None, thresholds: Thresholds) -> Flow | None:
    """Return the earlier flow of a queue; None if it had too few attempts for a share."""
    return None if before is None or before.ended < thresholds.failed_attempts else before


def _largest(readings: Readings, queue: str, thresholds: Thresholds) -> FailureGroup | None:
    """Return the largest failure group of a queue that has recent failures; None if there is none."""
    return next((group for group in readings.groups_of(queue) if _is_recent(group, readings, thresholds)), None)


def _is_recent(group: FailureGroup, readings: Readings, thresholds: Thresholds) -> bool:
    return readings.age_seconds(group.last_ms) < thresholds.failure_seconds


def _with_group(finding: Finding, group: FailureGroup | None) -> Finding:
    """Return the finding with the failure group added; unchanged if that is None."""
    if group is None:
        return finding
    sentence = f"{finding.sentence} Most of all with {_error(group)}."
    return finding._replace(sentence=sentence, since_ms=group.first_ms, job=group.job or None, group_id=group.id)


def _error(group: FailureGroup) -> str:
    job = shortened(group.job, 80).strip("()")  # "(unreadable)" has some already
    return f"{shortened(group.example)}{f' ({job})' if job else ''}"


def _ago(group: FailureGroup, readings: Readings) -> str:
    return f"{span(readings.age_seconds(group.last_ms))} ago"
