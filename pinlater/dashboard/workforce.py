"""Hosts, workers and job processes, from worker reports and claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.dashboard.claim_holders import ClaimScan, HolderClaims, JobClaim
from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.workers import WorkerProcess, WorkerReport


@dataclass(slots=True)
class ProcessView:
    """A job process and its running jobs, the longest-running first."""

    about: WorkerProcess
    jobs: list[JobClaim]


@dataclass(slots=True)
class WorkerView:
    """A worker that reports to the server.

    Attributes:
        report: its latest report.
        processes: its job processes, busy ones first; among these, those with the longest-running jobs first.
        shown: number of processes to show.
    """

    report: WorkerReport
    processes: list[ProcessView]
    shown: int = 0

    @property
    def busy(self) -> int:
        """Number of busy processes."""
        return sum(bool(process.jobs) for process in self.processes)

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return sum(len(process.jobs) for process in self.processes)

    @property
    def memory_bytes(self) -> int | None:
        """Memory of its processes in bytes; None if unknown."""
        known = [process.about.memory_bytes for process in self.processes if process.about.memory_bytes is not None]
        return sum(known) if known else None

    @property
    def hidden(self) -> int:
        """Number of processes not shown."""
        return len(self.processes) - self.shown


@dataclass(slots=True)
class HostView:
    """A host and its workers."""

    name: str
    workers: list[WorkerView] = field(default_factory=list)


@dataclass(slots=True)
class WorkerOverview:
    """All workers and other holders of claims.

    Attributes:
        hosts: hosts with workers that report.
        others: holders that do not report.
        scanned: number of claims read.
        has_more: whether there are further claims.
    """

    hosts: list[HostView]
    others: list[HolderClaims]
    scanned: int
    has_more: bool

    @property
    def workers(self) -> list[WorkerView]:
        """All workers."""
        return [worker for host in self.hosts for worker in host.workers]

    @property
    def versions(self) -> list[tuple[str, int]]:
        """Versions of PinLater with their number of workers, the most frequent first."""
        return Counter(worker.report.version or "" for worker in self.workers).most_common()

    @property
    def processes(self) -> int:
        """Number of processes."""
        return sum(len(worker.processes) for worker in self.workers)

    @property
    def busy(self) -> int:
        """Number of busy processes."""
        return sum(worker.busy for worker in self.workers)

    @property
    def memory_bytes(self) -> int:
        """Memory of all processes in bytes, as far as it is known."""
        return sum(worker.memory_bytes or 0 for worker in self.workers)

    def keep_only(self, worker_id: str) -> None:
        """Remove all but one worker."""
        for host in self.hosts:
            host.workers = [worker for worker in host.workers if worker.report.id == worker_id]
        self.hosts = [host for host in self.hosts if host.workers]
        self.others = []

    def fit_page(self, most_workers: int, most_processes: int) -> int:
        """Limit the workers and processes to one page; return the number of workers left out.

        Each worker gets the same share of the processes; what it does not need goes to the others.
        """
        every, room = len(self.workers), most_workers
        for host in self.hosts:
            host.workers = host.workers[:room]
            room -= len(host.workers)
        self.hosts = [host for host in self.hosts if host.workers]
        shown = sorted(self.workers, key=lambda worker: len(worker.processes))
        for place, worker in enumerate(shown):
            worker.shown = min(len(worker.processes), max(most_processes // (len(shown) - place), 1))
            most_processes -= worker.shown
        return every - len(shown)


def worker_overview(reports: Iterable[WorkerReport], claims: ClaimScan, queue: str = "") -> WorkerOverview:
    """Merge worker reports and claims.

    Claims are current; reports are some seconds old. So the claims determine which jobs a process runs, and the report
    when they started. Jobs of the report are added only if not all claims were read. A job that is in no report yet
    counts from when its claim was first seen.

    Args:
        reports: reports of all workers.
        claims: claims of all running jobs, or those of one queue.
        queue: keep only workers and processes that serve this queue or hold a job of it; empty for all.
    """
    by_holder = {(held.holder.host, held.holder.pid): held for held in claims.by_holder.values() if held.holder.host}
    # A process may have the id of an earlier one whose claims have not ended yet.
    unreported = [
        held for held in claims.by_holder.values() if by_holder.get((held.holder.host, held.holder.pid)) is not held
    ]
    hosts: defaultdict[str, list[WorkerView]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: (report.host, report.started_ms or 0, report.id)):
        processes = [
            ProcessView(
                about,
                _jobs_of(about, by_holder.pop((report.host, about.pid), None), queue, has_all=not claims.has_more),
            )
            for about in report.processes
        ]
        if queue:
            processes = [one for one in processes if queue in one.about.queues or one.jobs]
        if processes or not queue:
            processes.sort(key=lambda one: (not one.jobs, one.jobs[0].since_ms or 0 if one.jobs else 0, one.about.pid))
            hosts[report.host].append(WorkerView(report, processes))
    unreported += by_holder.values()
    for held in unreported:
        held.jobs.sort(key=_start)
    unreported.sort(key=lambda held: held.holder)
    return WorkerOverview(
        [HostView(name, hosts[name]) for name in sorted(hosts)], unreported, claims.scanned, claims.has_more
    )


def _jobs_of(about: WorkerProcess, held: HolderClaims | None, queue: str, *, has_all: bool) -> list[JobClaim]:
    reported = {job.descriptor: job.since_ms for job in about.jobs}
    jobs = [
        job._replace(since_ms=reported.pop(job.descriptor), is_exact=True) if job.descriptor in reported else job
        for job in (() if held is None else held.jobs)
    ]
    if not has_all:
        jobs += [
            JobClaim(where, descriptor, since_ms, is_exact=True)
            for descriptor, since_ms in reported.items()
            if (where := _queue_of(descriptor)) and queue in {"", where}
        ]
    return sorted(jobs, key=_start)


def _queue_of(descriptor: str) -> str:
    try:
        return JobDescriptor.parse(descriptor).queue
    except UnknownError:
        return ""


def _start(job: JobClaim) -> int:
    return job.since_ms or 0


class ReportedRun(NamedTuple):
    """A run as reported by its worker: start in epoch milliseconds, process, and id of the worker."""

    since_ms: int
    process: WorkerProcess
    worker: str


def run_of(reports: Sequence[WorkerReport], descriptor: str, host: str, pid: int) -> ReportedRun | None:
    """Return the reported run of a job; None if its worker has not reported it."""
    for report in reports:
        if report.host == host:
            for process in report.processes:
                for job in process.jobs:
                    if process.pid == pid and job.descriptor == descriptor:
                        return ReportedRun(job.since_ms, process, report.id)
    return None
