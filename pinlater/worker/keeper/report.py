"""Builds worker reports from shared memory, without asking the job processes."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from pinlater_supervisor import rss_bytes

from pinlater import __version__
from pinlater.model.workers import QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.shared import Shared

MOST_JOBS_BYTES = 80_000
"""Most bytes of running jobs in a report, which may have 256 KiB in all; the longest-running jobs are reported."""
MOST_QUEUES_BYTES = 80_000
"""Most bytes of queue names in a report; longer lists are cut."""
_MOST_POOL_CHARACTERS = 100
_JOB_OVERHEAD_BYTES, _QUEUE_OVERHEAD_BYTES = 20, 4


def build_report(
    shared: Shared,
    unknown: Sequence[UnknownJobs] = (),
    unfitting: Sequence[UnknownJobs] = (),
    queueless: Sequence[UnknownJobs] = (),
    loads: Sequence[QueueLoad] = (),
) -> WorkerReport:
    """Build the report of a worker and its job processes, without those that are still starting.

    Args:
        shared: memory shared by the processes.
        unknown: jobs of unknown classes that they have recently got.
        unfitting: jobs whose steps do not fit their code that they have recently got.
        queueless: jobs that enqueue others in a queue that does not exist, likewise.
        loads: recent load of queues with a latency target.
    """
    origin = shared.origin
    return WorkerReport(
        origin.id,
        origin.host,
        origin.pid,
        __version__,
        platform.python_version(),
        origin.started_ms,
        is_draining=shared.stopping.is_set,
        processes=_bounded([_process(shared, *place) for place in shared.rows()]),
        unknown=unknown,
        loads=loads,
        classes=shared.class_page.read(),
        unfitting=unfitting,
        queueless=queueless,
        cannot_start=shared.error_token.is_taken,
    )


def measured_processes(shared: Shared) -> Iterator[WorkerProcess]:
    """Yield the job processes with their memory and the number of their ended jobs, and nothing else."""
    for _, number, row in shared.rows():
        identity, ended = row.identity, shared.counters.of_process(number).ended_runs
        memory = rss_bytes(identity.pid) or None
        yield WorkerProcess(identity.pid, started_ms=identity.started_ms, memory_bytes=memory, ended=ended)


def pids_of(shared: Shared) -> list[int]:
    """Return the process ids of the job processes that a report would name."""
    return [row.identity.pid for _, _, row in shared.rows()]


def _process(shared: Shared, pool: str, number: int, row: ClaimRow) -> WorkerProcess:
    identity, now_ns, now_ms = row.identity, time.monotonic_ns(), int(time.time() * 1000)
    # The claim table shows a job as running a moment before it shows the job's start.
    jobs = [
        RunningJob(job.descriptor, now_ms - (now_ns - (job.started_ns or now_ns)) // 1_000_000)
        for job in row.running_jobs()
    ]
    return WorkerProcess(
        identity.pid,
        pool[:_MOST_POOL_CHARACTERS],
        identity.queues,
        identity.started_ms,
        rss_bytes(identity.pid) or None,
        identity.capacity,
        shared.counters.of_process(number).ended_runs,
        jobs,
    )


def _bounded(processes: Sequence[WorkerProcess]) -> list[WorkerProcess]:
    """Cut lists that would make a report too large for the server: thousands of jobs or queues."""
    jobs = sorted((job for process in processes for job in process.jobs), key=lambda job: job.since_ms)
    told = set(jobs[: _fitting((len(job.descriptor) + _JOB_OVERHEAD_BYTES for job in jobs), MOST_JOBS_BYTES)])
    room = MOST_QUEUES_BYTES // max(len(processes), 1)
    return [
        process._replace(
            queues=process.queues[: _fitting((len(name) + _QUEUE_OVERHEAD_BYTES for name in process.queues), room)],
            jobs=[job for job in process.jobs if job in told],
        )
        for process in processes
    ]


def _fitting(sizes: Iterable[int], room: int) -> int:
    """Return how many of the first items fit."""
    return sum(size <= room for size in accumulate(sizes))
