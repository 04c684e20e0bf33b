"""Who works: hosts, their workers, and the processes of these, as they report themselves and as the claims have it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.dashboard.claim_holders import Claims, Crew, Running
from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.records import WorkerProcess, WorkerReport


@dataclass(slots=True)
class Process:
    """A job process, and the jobs that it holds, the longest-running first."""

    about: WorkerProcess
    jobs: list[Running]


@dataclass(slots=True)
class Worker:
    """A worker that reports itself.

    Attributes:
        report: its latest.
        processes: its job processes: those at work first, by how long they are at it.
        shown: how many of these a page has room for.
    """

    report: WorkerReport
    processes: list[Process]
    shown: int = 0

    @property
    def busy(self) -> int:
        """How many processes run something."""
        return sum(bool(process.jobs) for process in self.processes)

    @property
    def running(self) -> int:
        """How many jobs run."""
        return sum(len(process.jobs) for process in self.processes)

    @property
    def memory_bytes(self) -> int | None:
        """What its processes hold, as far as they tell."""
        known = [process.about.memory_bytes for process in self.processes if process.about.memory_bytes is not None]
        return sum(known) if known else None

    @property
    def hidden(self) -> int:
        """How many processes there is no room for."""
        return len(self.processes) - self.shown


@dataclass(slots=True)
class Host:
    """One machine."""

    name: str
    workers: list[Worker] = field(default_factory=list)


@dataclass(slots=True)
class Workforce:
    """What was found.

    Attributes:
        hosts: those with workers that report themselves.
        others: claimants that do not.
        scanned: how many claims were looked at.
        has_more: whether there are others.
    """

    hosts: list[Host]
    others: list[Crew]
    scanned: int
    has_more: bool

    @property
    def workers(self) -> list[Worker]:
        """All workers."""
        return [worker for host in self.hosts for worker in host.workers]

    @property
    def versions(self) -> list[tuple[str, int]]:
        """The versions of PinLater and how many workers have each, the most frequent first."""
        return Counter(worker.report.version or "" for worker in self.workers).most_common()

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return sum(len(worker.processes) for worker in self.workers)

    @property
    def busy(self) -> int:
        """How many of them run something."""
        return sum(worker.busy for worker in self.workers)

    @property
    def memory_bytes(self) -> int:
        """What they hold, as far as they tell."""
        return sum(worker.memory_bytes or 0 for worker in self.workers)

    def keep(self, worker_id: str) -> None:
        """Leave all out but one worker."""
        for host in self.hosts:
            host.workers = [worker for worker in host.workers if worker.report.id == worker_id]
        self.hosts = [host for host in self.hosts if host.workers]
        self.others = []

    def fold(self, most_workers: int, most_processes: int) -> int:
        """Fit it into a page; return how many workers were left out.

        Of the room for processes each worker gets the same, and what it does not need goes to the others.
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


def workforce_of(reports: Iterable[WorkerReport], claims: Claims, queue: str = "") -> Workforce:
    """Put together what workers say and what the claims say.

    The claims are of this moment, a report is some seconds old. So what a process holds is told by the claims, and
    since when by the report; only where not all claims were looked at, the report is believed about what runs, too. Of
    a claim that no report knows yet, when it was first seen is right within the seconds between two reports.

    Args:
        reports: of all workers.
        claims: of the running jobs, or of those of one queue.
        queue: leave out who neither serves it nor holds a job of it; empty: all.
    """
    crews = {(crew.holder.host, crew.holder.pid): crew for crew in claims.crews.values() if crew.holder.host}
    # A process may have the number of one that is gone, whose claims have not ended yet.
    unreported = [crew for crew in claims.crews.values() if crews.get((crew.holder.host, crew.holder.pid)) is not crew]
    hosts: defaultdict[str, list[Worker]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: (report.host, report.started_ms or 0, report.id)):
        processes = [
            Process(
                about, _jobs_of(about, crews.pop((report.host, about.pid), None), queue, has_all=not claims.has_more)
            )
            for about in report.processes
        ]
        if queue:
            processes = [one for one in processes if queue in one.about.queues or one.jobs]
        if processes or not queue:
            processes.sort(key=lambda one: (not one.jobs, one.jobs[0].since_ms or 0 if one.jobs else 0, one.about.pid))
            hosts[report.host].append(Worker(report, processes))
    unreported += crews.values()
    for crew in unreported:
        crew.jobs.sort(key=_begin)
    unreported.sort(key=lambda crew: crew.holder)
    return Workforce([Host(name, hosts[name]) for name in sorted(hosts)], unreported, claims.scanned, claims.has_more)


def _jobs_of(about: WorkerProcess, crew: Crew | None, queue: str, *, has_all: bool) -> list[Running]:
    told = {job.descriptor: job.since_ms for job in about.jobs}
    held = [] if crew is None else crew.jobs
    jobs = [
        job._replace(since_ms=told.pop(job.descriptor), is_exact=True) if job.descriptor in told else job
        for job in held
    ]
    if not has_all:
        jobs += [
            Running(where, descriptor, since_ms, is_exact=True)
            for descriptor, since_ms in told.items()
            if (where := _queue_of(descriptor)) and queue in {"", where}
        ]
    return sorted(jobs, key=_begin)


def _queue_of(descriptor: str) -> str:
    try:
        return JobDescriptor.parse(descriptor).queue
    except UnknownError:
        return ""


def _begin(job: Running) -> int:
    return job.since_ms or 0


class Run(NamedTuple):
    """Since when a job runs, in epoch milliseconds; in which process, and of which worker, by its id."""

    since_ms: int
    process: WorkerProcess
    worker: str


def run_of(reports: Sequence[WorkerReport], descriptor: str, host: str, pid: int) -> Run | None:
    """Return what the worker that holds a job has said of its run; None if it has said nothing."""
    for report in reports:
        if report.host == host:
            for process in report.processes:
                for job in process.jobs:
                    if process.pid == pid and job.descriptor == descriptor:
                        return Run(job.since_ms, process, report.id)
    return None
