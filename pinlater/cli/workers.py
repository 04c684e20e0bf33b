"""``pinlater workers``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import duration, moment, print_json, visible
from pinlater.cli.tables import Table
from pinlater.client.store_time import now_ms_at
from pinlater.errors import ProtocolError
from pinlater.model.descriptor import queue_of

if TYPE_CHECKING:
    from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport

_HEADERS = ("HOST", "WORKER", "VERSION", "UP SINCE", "STATE", "POOL", "PROCESS", "MEMORY", "ENDED", "RUNS")
_NUMBERS = (1, 6, 7, 8)
_OPTIONAL = ("VERSION", "UP SINCE", "ENDED", "POOL", "WORKER")

_MOST_JOBS = 3


@command(
    "workers",
    common=WITH_TABLE,
    examples="""
    pinlater workers
    pinlater workers --queue email
    pinlater workers --json
    """,
)
@click.option("--queue", metavar="NAME", shell_complete=complete_queues, help="Only processes that serve this queue.")
def workers(session: Session, /, *, queue: str | None) -> int:
    """Show the workers, one line for each job process.

    WORKER is the process id of the worker, PROCESS that of a job process, and ENDED the number of jobs that have ended
    in it. RUNS lists its running jobs and for how long they have run, the longest first. Workers report every few
    seconds; a worker that died is shown as lost or silent for half a minute, then removed. Job classes that a worker
    did not know within the last ten minutes are listed below. Exit status 1 if there are no workers.
    """
    with session.client() as client:
        try:
            found = client.workers()
        except ProtocolError as error:
            error.add_note("servers of earlier versions do not store worker reports")
            raise
        shown = found if queue is None else list(_of_queue(found, queue))
        now_ms = now_ms_at(client) if shown and not session.as_json else 0
    if session.as_json:
        print_json(shown)
    elif shown:
        rows = [row for report in shown for row in _rows(report, now_ms)]
        Table(_HEADERS, _NUMBERS, width=session.table_width, optional=_OPTIONAL).print(rows)
        for line in _unknown(found, queue, now_ms):
            click.echo(line, err=True)
    else:
        click.echo(_no_workers(queue, is_any=bool(found)), err=True)
    return 0 if shown else 1


def _no_workers(queue: str | None, *, is_any: bool) -> str:
    if is_any:
        return f"no worker serves queue {queue}; to see all workers: pinlater workers"
    return "no worker has reported; start one with: pinlater-worker MODULE (workers of earlier versions do not report)"


def _of_queue(reports: Sequence[WorkerReport], queue: str) -> Iterator[WorkerReport]:
    """Yield the workers that serve a queue or run its jobs, with only the processes that do."""
    for report in reports:
        processes = [
            process
            for process in report.processes
            if queue in process.queues or any(queue_of(job.descriptor) == queue for job in process.jobs)
        ]
        if processes:
            yield report._replace(processes=processes)


def _rows(report: WorkerReport, now_ms: float) -> Iterator[list[str]]:
    worker = [
        visible(report.host),
        _number(report.pid),
        visible(report.version or "-"),
        moment(report.started_ms),
        _state(report, now_ms),
    ]
    for process in report.processes:
        yield [*worker, *_process(process, now_ms + (report.clock_ahead_ms or 0))]
    if not report.processes:
        yield [*worker, *["-"] * (len(_HEADERS) - len(worker))]


def _unknown(reports: Sequence[WorkerReport], queue: str | None, now_ms: float) -> Iterator[str]:
    """Yield a line for each job class that workers do not know."""
    from pinlater.client.unknown_classes import jobs_of_class, unknown_classes
    from pinlater.triage.texts import times

    for jobs in unknown_classes(reports, queue):
        ago = duration(max(now_ms - (jobs.last_ms or 0), 0) / 1000)
        yield (
            f"no worker can read {visible(jobs_of_class(jobs.name))} in queue {visible(jobs.queue)}: "
            f"given back {times(jobs.returned or 0)}, the last time {ago} ago"
        )


def _state(report: WorkerReport, now_ms: float) -> str:
    from pinlater.model.silence import is_silent

    if report.lost_ms is not None:
        return f"lost {duration(max(now_ms - report.lost_ms, 0) / 1000)} ago"
    if report.reported_ms is not None and is_silent(report, now_ms):
        return f"silent for {duration((now_ms - report.reported_ms) / 1000)}"
    return "draining" if report.is_draining else "up"


def _process(process: WorkerProcess, now_ms: float) -> list[str]:
    return [
        visible(process.pool or "-"),
        str(process.pid),
        "-" if process.memory_bytes is None else f"{process.memory_bytes / 2**20:,.1f} MiB",
        _number(process.ended, ","),
        _jobs(process.jobs, now_ms) or "idle",
    ]


def _jobs(jobs: Sequence[RunningJob], now_ms: float) -> str:
    longest = sorted(jobs, key=lambda job: job.since_ms)
    texts = [
        f"{visible(job.descriptor)} for {duration(max(now_ms - job.since_ms, 0) / 1000)}"
        for job in longest[:_MOST_JOBS]
    ]
    more = len(longest) - _MOST_JOBS
    return ", ".join([*texts, f"{more} more"] if more > 0 else texts)


def _number(value: int | None, form: str = "") -> str:
    return "-" if value is None else format(value, form)
