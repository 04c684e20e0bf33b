"""Rules about queues: whether their jobs are claimed, and in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pinlater.model.plural import plural
from pinlater.model.queues import QueueSettings
from pinlater.model.silence import silent_since_ms
from pinlater.model.workers import QueueLoad, WorkerReport
from pinlater.triage.findings import Finding, Kind, Severity
from pinlater.triage.readings import Readings
from pinlater.triage.texts import share, shortened, span
from pinlater.triage.thresholds import Thresholds

_FEW_JOBS = 10
"""Growth by fewer jobs may be chance."""

_CRITICAL_WAIT_SECONDS = 60.0
"""How long a job may wait because a worker restarts."""


def no_worker(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues with due jobs that no worker serves."""
    if readings.workers is None:
        return
    lost = _lost_workers(readings)
    draining = {queue for report in readings.reports if report.is_draining for queue in _queues_of(report)}
    for queue, settings in readings.settings.items():
        waits = readings.waits_seconds(queue)
        least = _CRITICAL_WAIT_SECONDS if queue in draining else thresholds.unserved_seconds
        if settings.is_paused or waits < least or readings.serving(queue) or lost[queue]:
            continue
        if readings.is_worked_on(queue):  # by clients that do not report
            continue
        waiting, before = _waiting(readings, queue), _started_before(readings, queue)
        gone = f" It started {plural(before)} within the last hours: the workers that did are gone." if before else ""
        yield Finding(
            Kind.POOL_GONE if before else Kind.NO_WORKER,
            Severity.CRITICAL if waits >= _CRITICAL_WAIT_SECONDS else Severity.WARNING,
            queue,
            f"All workers of queue {queue} are gone" if before else f"No worker serves queue {queue}",
            f"{waiting} in queue {queue}, the first for {span(waits)}, and no worker serves it.{gone}",
            f"Start a worker for queue {queue}, or see why the one that served it does not run.",
            "pinlater workers",
            readings.oldest_due_ms.get(queue),
            queue,
            numbers=_numbers(readings, queue),
            affected=_due(readings, queue),
        )


def pool_gone(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find queues whose workers have all stopped reporting."""
    for queue, reports in sorted(_lost_workers(readings).items()):
        settings = readings.settings.get(queue)
        if settings is None or not reports or readings.serving(queue):
            continue
        since_ms = max(silent_since_ms(report) or 0 for report in reports)
        hosts = shortened(", ".join(sorted({report.host for report in reports})), 60)
        waits = readings.waits_seconds(queue)
        behind = f" {_waiting(readings, queue)}, the first for {span(waits)}." if waits else ""
        yield Finding(
            Kind.POOL_GONE,
            Severity.WARNING if settings.is_paused else Severity.CRITICAL,
            queue,
            f"All workers of queue {queue} are gone",
            f"All workers of queue {queue} ({hosts}) have been silent for {span(readings.age_seconds(since_ms))}, "
            f"and no other serves it.{behind}",
            "See whether their hosts and processes run, and whether they reach the server; start them again.",
            f"pinlater workers --queue {queue}",
            since_ms,
            queue,
            worker=reports[0].id,
            numbers=_numbers(readings, queue),
            affected=_due(readings, queue),
        )


def paused(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find paused queues in which jobs wait."""
    for queue, settings in readings.settings.items():
        waits = readings.waits_seconds(queue)
        if not settings.is_paused or not waits:
            continue
        is_forgotten, growth = waits >= thresholds.paused_seconds, _growth(readings, queue)
        where = "the server's file of limits" if settings.is_from_file else ""
        yield Finding(
            Kind.PAUSED,
            Severity.WARNING if is_forgotten or growth else Severity.NOTICE,
            queue,
            f"Queue {queue} is paused, and jobs wait",
            f"Queue {queue} is paused{f' by {where}' if where else ''}. {_waiting(readings, queue)}, the first for "
            f"{span(waits)}{'; the pause may be forgotten' if is_forgotten else ''}.{growth}",
            f"Take the pause out of {where}." if where else "Resume the queue, if the reason for the pause is gone.",
            "" if where else f"pinlater resume {queue}",
            readings.oldest_due_ms.get(queue),
            queue,
            numbers=_numbers(readings, queue),
            affected=_due(readings, queue),
        )


def backlog(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues whose jobs wait too long although workers serve them."""
    targets = _targets(readings)
    for queue, settings in readings.settings.items():
        waits, load = readings.waits_seconds(queue), targets.get(queue)
        target = None if load is None else load.target_ms / 1000
        most = thresholds.backlog_seconds if target is None else max(target * thresholds.target_factor, 1.0)
        if settings.is_paused or waits < most or not (serving := readings.serving(queue)):
            continue
        goal = "" if target is None else f" They should start within {span(target)}."
        limit = _limit(settings)
        slots = sum(process.slots or 1 for process in serving)
        yield Finding(
            Kind.BACKLOG,
            Severity.WARNING,
            queue,
            f"Queue {queue} is behind",
            f"{_waiting(readings, queue)} in queue {queue}, the first for {span(waits)}, although workers can run "
            f"{plural(slots)} of it at once.{goal}{f' Its limit is {limit}.' if limit else ''}"
            f"{_growth(readings, queue)}",
            "Raise the limit." if limit else "Start more workers, or see whether jobs take longer than before.",
            f"pinlater limit {queue}" if limit else f"pinlater workers --queue {queue}",
            readings.oldest_due_ms.get(queue),
            queue,
            numbers=_numbers(readings, queue),
            affected=_due(readings, queue),
        )


def key_held(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find running jobs that have long held up others of their key."""
    for queue, hold in sorted(readings.holds.items()):
        seconds = readings.age_seconds(hold.since_ms)
        if seconds < thresholds.backlog_seconds:
            continue
        usual = hold.usual_seconds
        is_usual = hold.is_usual(readings.at_ms)
        compared = "" if usual is None else f" Of the attempts of {hold.job}, 95 % take {span(usual)} at most."
        yield Finding(
            Kind.KEY_HELD,
            Severity.NOTICE if is_usual else Severity.WARNING,
            hold.descriptor,
            f"A job of queue {queue} holds up others of its key",
            f"Job {hold.descriptor} has been running for {span(seconds)}, and {plural(hold.waiting)} of its key "
            f"{shortened(hold.key, 60)} {'waits' if hold.waiting == 1 else 'wait'} until it ends.{compared}",
            "That is usual. If the others cannot wait so long, divide such jobs, or let more of a key run at once "
            "(running_per_key)."
            if is_usual
            else "See whether it hangs: its progress, and the stacks that kill -USR2 of its worker's master logs. "
            "Cancel it if it does; timeout or stall_after of its class ends such jobs in future.",
            f"pinlater lookup {hold.descriptor}",
            hold.since_ms,
            queue,
            hold.job or None,
            numbers={"jobs": hold.waiting, "seconds": seconds},
            affected=hold.waiting,
        )


def key_flood(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues in which most waiting jobs have the same key."""
    for queue, sample in sorted(readings.keys.items()):
        if sample.share < thresholds.flood_share or max(sample.waiting, sample.jobs) < thresholds.flood_jobs:
            continue
        key = shortened(sample.name, 60)
        yield Finding(
            Kind.KEY_FLOOD,
            Severity.WARNING,
            queue,
            f"One key floods queue {queue}",
            f"{sample.jobs:,} of {sample.sampled:,} waiting jobs that were looked at in queue {queue} have the key "
            f"{key}; {plural(sample.waiting)} wait in all.",
            f"See what enqueues so many jobs with the key {key}; running_per_key of the class limits how many run.",
            f"pinlater scan {queue} --future",
            readings.oldest_due_ms.get(queue),
            queue,
            numbers={"jobs": sample.waiting, "share": sample.share},
            affected=sample.waiting,
        )


def class_flood(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find queues in which most waiting jobs are of one class that usually has a smaller share."""
    for queue, sample in sorted(readings.classes.items()):
        if (
            sample.share < max(thresholds.flood_share, thresholds.flood_factor * sample.usual_share)
            or sample.waiting < thresholds.flood_jobs
        ):
            continue
        name = shortened(sample.name, 80)
        yield Finding(
            Kind.CLASS_FLOOD,
            Severity.WARNING,
            queue,
            f"One class floods queue {queue}",
            f"{sample.jobs:,} of {sample.sampled:,} waiting jobs that were looked at in queue {queue} are of class "
            f"{name}, which usually has {share(sample.usual_share)} of its attempts; {plural(sample.waiting)} wait in "
            "all.",
            f"See what enqueues so many jobs of class {name}. Give it a queue of its own, or a lower priority; jobs "
            "with a key for each tenant can be told apart, and limited.",
            f"pinlater scan {queue}",
            readings.oldest_due_ms.get(queue),
            queue,
            sample.name,
            numbers={"jobs": sample.waiting, "share": sample.share},
            affected=sample.waiting,
        )


def _lost_workers(readings: Readings) -> defaultdict[str, list[WorkerReport]]:
    """Return the silent workers of each queue."""
    lost: defaultdict[str, list[WorkerReport]] = defaultdict(list)
    for report in readings.reports:
        if readings.is_silent(report):
            for queue in _queues_of(report):
                lost[queue].append(report)
    return lost


def _queues_of(report: WorkerReport) -> set[str]:
    return {queue for process in report.processes for queue in process.queues}


def _targets(readings: Readings) -> dict[str, QueueLoad]:
    """Return the load with the smallest latency target of each queue."""
    found: dict[str, QueueLoad] = {}
    for load in (load for report in readings.reports for load in report.loads):
        known = found.get(load.queue)
        if known is None or load.target_ms < known.target_ms:
            found[load.queue] = load
    return found


def _waiting(readings: Readings, queue: str) -> str:
    depth = readings.depths.get(queue)
    return "Jobs wait" if depth is None else f"{plural(depth.due)} {'waits' if depth.due == 1 else 'wait'}"


def _started_before(readings: Readings, queue: str) -> int:
    """Return how many jobs were started within the last hours, as far as is known."""
    flows = (readings.before.get(queue), readings.recently(queue))
    return sum(flow.started for flow in flows if flow is not None)


def _growth(readings: Readings, queue: str) -> str:
    """Return a sentence that says that the queue grows; empty if it does not, or if that is unknown."""
    flow = readings.recently(queue)
    if flow is None or flow.growth * flow.seconds < _FEW_JOBS:
        return ""
    return f" It grows, per second: {flow.enqueued / flow.seconds:.2g} in, {flow.succeeded / flow.seconds:.2g} done."


def _numbers(readings: Readings, queue: str) -> dict[str, float]:
    depth, waits = readings.depths.get(queue), readings.waits_seconds(queue)
    return {"waits_seconds": waits} if depth is None else {"jobs": depth.due, "waits_seconds": waits}


def _due(readings: Readings, queue: str) -> int:
    """Return the number of due jobs; 0 if they are not counted."""
    depth = readings.depths.get(queue)
    return 0 if depth is None else depth.due


def _limit(settings: QueueSettings) -> str:
    parts = [] if settings.jobs_per_second is None else [f"{settings.jobs_per_second:g} jobs a second"]
    parts += [] if settings.max_running is None else [f"{settings.max_running} at once"]
    return " and ".join(parts)
