"""``pinlater periodic``, ``pause-periodic`` and ``resume-periodic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.missing_queues import refuse_missing
from pinlater.cli.output import duration, job_json, moment, print_json, visible
from pinlater.cli.tables import Table

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.client.periodic import PeriodicJob

_HEADERS = ("QUEUE", "JOB", "SCHEDULE", "NEXT RUN", "LAST RUN", "RESULT", "TOOK", "RUNS", "FAILED", "ERROR")
_NUMBERS = (6, 7, 8)
_OPTIONAL = ("TOOK", "RUNS", "LAST RUN", "SCHEDULE")


@command(
    "periodic",
    common=WITH_TABLE,
    examples="""
    pinlater periodic
    pinlater periodic bills --failed
    pinlater periodic --json
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option("--failed", is_flag=True, help="Only jobs whose last run failed.")
def periodic(session: Session, /, *, queues: tuple[str, ...], failed: bool) -> None:
    """List periodic jobs, failing ones first.

    Without QUEUES, it lists those of all queues. A run has failed when all its attempts have failed; the job still runs
    at its next scheduled time. LAST RUN tells when the last run ended, TOOK how long its last attempt ran; older
    workers do not record these. FAILED is the number of consecutive failed runs, ERROR the error of the last failed
    attempt, however long ago. --json also prints the schedule in words, and the time of the last failed attempt in
    last_failure.
    """
    with session.client() as client:
        refuse_missing(client, queues)
        found = client.periodic_jobs(queues)
    jobs = [job for job in found.jobs if job.failures or not failed]
    if session.as_json:
        print_json([_json(job) for job in jobs])
    elif jobs:
        Table(_HEADERS, _NUMBERS, width=session.table_width, optional=_OPTIONAL).print([_row(job) for job in jobs])
    else:
        click.echo("no periodic job failed in its last run" if failed else "there are no periodic jobs", err=True)
    if found.left_out:
        names = ", ".join(sorted(found.left_out))
        click.echo(f"only some jobs were read; there may be more periodic jobs in: {names}", err=True)


@command(
    "pause-periodic",
    examples="""
    pinlater pause-periodic bills Bill
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.argument("name", metavar="JOB")
def pause_periodic(session: Session, /, *, queue: str, name: str) -> int:
    """Pause a periodic job, by its queue and class.

    The job does not run until it is resumed, even after restarts and deployments. If you deploy another schedule for
    the class, that is another job, which is not paused. If you run the job now, the pause ends.

    Exit status 1 if there is no such job, if it runs now, or if it is paused already.
    """
    return _change(
        session,
        queue,
        name,
        lambda client, job: client.pause_periodic(job),
        done="is paused",
        why_not=lambda job: "is paused already" if job.is_paused else "runs now: pause it when this run has ended",
    )


@command(
    "resume-periodic",
    examples="""
    pinlater resume-periodic bills Bill
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.argument("name", metavar="JOB")
def resume_periodic(session: Session, /, *, queue: str, name: str) -> int:
    """Let a paused periodic job run again, by its queue and class.

    If it has missed runs, it runs now, once for all of them, and then as scheduled.

    Exit status 1 if there is no such job, or if it is not paused.
    """
    return _change(
        session,
        queue,
        name,
        lambda client, job: client.resume_periodic(job),
        done="is resumed",
        why_not=lambda _: "is not paused",
    )


def _change(
    session: Session,
    queue: str,
    name: str,
    change: Callable[[Client, PeriodicJob], bool],
    *,
    done: str,
    why_not: Callable[[PeriodicJob], str],
) -> int:
    """Change a periodic job; print what it is afterwards, or why it did not change, and return the exit status."""
    with session.client() as client:
        jobs = [job for job in client.periodic_jobs([queue]).jobs if job.name == name]
        changed = sum(change(client, job) for job in jobs)
    if session.as_json:
        print_json({"jobs": changed})
    elif not jobs:
        click.echo(f"there is no periodic job {name} in queue {queue}; see: pinlater periodic {queue}", err=True)
    else:
        click.echo(f"{name} {done if changed else why_not(jobs[0])}", err=True)
    return int(changed == 0)


def _row(job: PeriodicJob) -> list[str]:
    failure, run = job.last_failure, job.last_run
    return [
        job.queue,
        visible(job.name),
        visible(job.schedule),
        _next_run(job),
        *(("-", "-", "-") if run is None else (moment(run.ended_ms), run.result, duration(run.run_ms / 1000))),
        str(job.runs),
        str(job.failures),
        "-" if failure is None else visible(failure.error),
    ]


def _next_run(job: PeriodicJob) -> str:
    if job.is_paused:
        return "paused"
    if job.is_running:
        return "running"
    return "retrying" if job.is_retrying else moment(job.due_ms)


def _json(job: PeriodicJob) -> dict[str, Any]:
    import msgspec

    failure = job.last_failure
    return {
        **job._asdict(),
        "schedule_in_words": job.in_words,
        "is_paused": job.is_paused,
        "last_failure": None if failure is None else {"at_ms": failure.at_ms, "error": failure.error},
        "last_run": None if job.last_run is None else msgspec.structs.asdict(job.last_run),
        "info": job_json(job.info._replace(body=None)),
    }
