"""Rules about workers: classes that they do not know, silence, clocks and memory."""

from __future__ import annotations

from collections.abc import Iterator

from pinlater.client.unknown_classes import by_class, deployment_for, jobs_of_class, unknown_classes
from pinlater.model.class_name import NO_CLASS
from pinlater.model.plural import plural
from pinlater.model.silence import silent_since_ms
from pinlater.model.workers import UnknownJobs, WorkerProcess, WorkerReport
from pinlater.triage.findings import Finding, Kind, Severity
from pinlater.triage.readings import Readings
from pinlater.triage.texts import shortened, size, span, times
from pinlater.triage.thresholds import Thresholds


def unknown_class(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find job classes that workers receive but do not know."""
    for unknown in unknown_classes(readings.reports):
        if unknown.queue not in readings.settings:
            continue
        what = jobs_of_class(shortened(unknown.name, 80))
        is_classless = unknown.name == NO_CLASS
        why = (
            "their bodies are not JSON that names a class"
            if is_classless
            else "they do not know the class, or cannot read its fields, as the status of such a job says"
        )
        yield Finding(
            Kind.UNKNOWN_CLASS,
            Severity.CRITICAL,
            f"{unknown.queue} {unknown.name}",
            f"No worker of queue {unknown.queue} can read {what}",
            f"{_given_back(unknown, what, readings)}: {why}.",
            f"{deployment_for(shortened(unknown.name, 80))} Until then the jobs wait; after the workers' "
            "--unknown-after they fail.",
            f"pinlater scan {unknown.queue} --future" if is_classless else f"pinlater workers --queue {unknown.queue}",
            None,
            unknown.queue,
            unknown.name,
            numbers={"returned": unknown.returned or 0},
            affected=unknown.returned or 0,
        )


def unfitting_steps(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find job classes whose jobs have long been waiting for code that fits their steps."""
    for waiting in by_class(jobs for report in readings.reports for jobs in report.unfitting):
        since_ms = waiting.first_ms or waiting.last_ms or readings.at_ms
        seconds = ((waiting.last_ms or since_ms) - since_ms) / 1000
        if waiting.queue not in readings.settings or seconds < thresholds.unfitting_seconds:
            continue
        what = jobs_of_class(shortened(waiting.name, 80))
        yield Finding(
            Kind.UNFITTING_STEPS,
            Severity.WARNING,
            f"{waiting.queue} {waiting.name}",
            f"{what[:1].upper()}{what[1:]} in queue {waiting.queue} wait for code that fits their steps",
            f"For {span(seconds)}, workers have given back {what} in queue {waiting.queue}, "
            f"{times(waiting.returned or 0)} in all: the steps that they have recorded do not fit the code, as the "
            "status of such a job says.",
            "Deploy code that goes on from these steps, or the code with which the jobs began. Until then they wait; "
            "after the workers' --unknown-after they fail.",
            f"pinlater scan {waiting.queue} --future",
            since_ms,
            waiting.queue,
            waiting.name,
            numbers={"returned": waiting.returned or 0},
            affected=waiting.returned or 0,
        )


def missing_queue(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find job classes whose jobs wait since they enqueue others in a queue that does not exist."""
    for waiting in by_class(jobs for report in readings.reports for jobs in report.queueless):
        if waiting.queue not in readings.settings:
            continue
        what = jobs_of_class(shortened(waiting.name, 80))
        yield Finding(
            Kind.MISSING_QUEUE,
            Severity.WARNING,
            f"{waiting.queue} {waiting.name}",
            f"{what[:1].upper()}{what[1:]} in queue {waiting.queue} wait for a queue that does not exist",
            f"{_given_back(waiting, what, readings)}: they enqueue others in a queue that does not exist. The status "
            "of such a job names it.",
            "Create that queue (pinlater create-queue), or deploy code with its right name. Until then the jobs wait; "
            "after the workers' --unknown-after they fail.",
            f"pinlater scan {waiting.queue} --future",
            waiting.first_ms,
            waiting.queue,
            waiting.name,
            numbers={"returned": waiting.returned or 0},
            affected=waiting.returned or 0,
        )


def cannot_start(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find workers whose new processes cannot start, as after a reload of code that cannot be loaded."""
    for report in readings.reports:
        if not report.cannot_start or readings.is_silent(report) or not _concerns(report, readings):
            continue
        yield Finding(
            Kind.CANNOT_START,
            Severity.WARNING,
            report.id,
            f"A worker on {_host(report)} cannot start processes",
            f"New processes of the worker {_name(report)} cannot start; those from before go on with their code. "
            "Its log says why: a module that cannot be loaded, for instance.",
            "Deploy code that can be loaded, which pinlater-worker --check tries out. The worker tries again, at once "
            "on HUP.",
            f"kill -HUP {report.pid}" if report.pid else "",
            worker=report.id,
        )


def worker_silent(readings: Readings, _: Thresholds) -> Iterator[Finding]:
    """Find workers that have stopped reporting without saying that they end."""
    for report in readings.reports:
        if not readings.is_silent(report) or not _concerns(report, readings):
            continue
        since_ms = silent_since_ms(report)
        silence = span(readings.age_seconds(since_ms or readings.at_ms))
        running = sum(len(process.jobs) for process in report.processes)
        held = f" What it ran, {plural(running)}, goes to others when the leases expire." if running else ""
        yield Finding(
            Kind.WORKER_SILENT,
            Severity.WARNING,
            report.id,
            f"A worker on {_host(report)} is silent",
            f"The worker {_name(report)} {_silence(report)} {silence}"
            f"{'' if report.lost_ms is None else ' ago without a word'}.{held}",
            "See whether it runs, and whether it reaches the server.",
            "pinlater workers",
            since_ms,
            worker=report.id,
            numbers={"running": running},
            affected=running,
        )


def clock_off(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find workers whose clock differs from the store's."""
    for report in readings.reports:
        ahead = (report.clock_ahead_ms or 0) / 1000
        if abs(ahead) < thresholds.clock_seconds or not _concerns(report, readings):
            continue
        yield Finding(
            Kind.CLOCK_OFF,
            Severity.CRITICAL if abs(ahead) >= thresholds.clock_critical_seconds else Severity.WARNING,
            report.id,
            f"The clock of {_host(report)} is off",
            f"The clock of worker {_name(report)} is {span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} that "
            "of the store. What a Client on that machine enqueues with a delay is due at the wrong time.",
            f"On {_host(report)}, let it set its clock by NTP, and see that it does by timedatectl status; look at the "
            "store's clock, of the database or the SQLite server, if all workers seem to be off.",
            "timedatectl set-ntp true",
            worker=report.id,
            numbers={"ahead_seconds": ahead},
        )


def memory_grows(readings: Readings, thresholds: Thresholds) -> Iterator[Finding]:
    """Find workers with job processes that grow from job to job; one finding per worker, for the largest growth."""
    for report in readings.reports:
        growing = [process for process in report.processes if _growth(process, thresholds) > 0]
        if not growing or readings.is_silent(report) or not _concerns(report, readings):
            continue
        most = max(growing, key=lambda process: _growth(process, thresholds))
        now, start, ended = most.memory_bytes or 0, most.memory_at_start_bytes or 0, most.ended or 0
        others = f" So have {len(growing) - 1} more of its processes." if len(growing) > 1 else ""
        yield Finding(
            Kind.MEMORY_GROWS,
            Severity.WARNING,
            report.id,
            f"Job processes on {_host(report)} keep growing",
            f"Process {most.pid} of worker {_name(report)} has grown from {size(start)} to {size(now)} while it ran "
            f"{plural(ended)}: about {size((now - start) / max(ended, 1))} a job, which looks like a leak.{others}",
            f"On {_host(report)}, the command replaces all processes of the worker; no job is lost, running ones end "
            "first. Start it with --max-memory or --max-jobs, which replace processes in time, and find what its jobs "
            "keep.",
            f"kill -HUP {report.pid}" if report.pid else "",
            most.started_ms,
            most.queues[0] if most.queues else None,
            worker=report.id,
            numbers={"bytes": now, "start_bytes": start, "grown_bytes": now - start, "ended": ended},
        )


def _given_back(jobs_of: UnknownJobs, what: str, readings: Readings) -> str:
    ago = span(readings.age_seconds(jobs_of.last_ms or readings.at_ms))
    number = times(jobs_of.returned or 0)
    return f"Workers have given back {what} in queue {jobs_of.queue} {number}, the last time {ago} ago"


def _growth(process: WorkerProcess, thresholds: Thresholds) -> int:
    """Return the bytes that a process has grown by, if that looks like a leak; else 0."""
    now, start = process.memory_bytes or 0, process.memory_at_start_bytes or 0
    is_leak = (
        start > 0
        and now - start >= thresholds.leak_bytes
        and now >= start * thresholds.leak_factor
        and (process.ended or 0) >= thresholds.leak_jobs
    )
    return now - start if is_leak else 0


def _concerns(report: WorkerReport, readings: Readings) -> bool:
    """Return whether a worker serves an examined queue; one whose queues are unknown may serve any."""
    served = {queue for process in report.processes for queue in process.queues}
    return not served or not served.isdisjoint(readings.settings)


def _silence(report: WorkerReport) -> str:
    return "has not reported for" if report.lost_ms is None else "ended its connection"


def _host(report: WorkerReport) -> str:
    return shortened(report.host, 60)


def _name(report: WorkerReport) -> str:
    return _host(report) if report.pid is None else f"{_host(report)} {report.pid}"
