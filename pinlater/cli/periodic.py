"""``pinlater periodic``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import Table, job_json, moment, print_json, visible

if TYPE_CHECKING:
    from pinlater.client.periodic import PeriodicJob

_HEADERS = ("QUEUE", "JOB", "SCHEDULE", "NEXT RUN", "RUNS", "FAILED", "LAST FAILURE", "ERROR")
_NUMBERS = (4, 5)


@command(
    "periodic",
    examples="""
    pinlater periodic
    pinlater periodic bills --failed
    pinlater periodic --json
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option("--failed", is_flag=True, help="Only jobs whose last run failed.")
@click.pass_obj
def periodic(session: Session, /, *, queues: tuple[str, ...], failed: bool) -> None:
    """List periodic jobs, failing ones first.

    Without QUEUES, it lists those of all queues. A run has failed when all its attempts have failed; the job still runs
    at its next scheduled time. FAILED is the number of consecutive failed runs. LAST FAILURE and ERROR show the last
    failed attempt, however long ago.
    """
    with session.client() as client:
        found = client.periodic_jobs(queues)
    jobs = [job for job in found.jobs if job.failures or not failed]
    if session.as_json:
        print_json([_json(job) for job in jobs])
    elif jobs:
        Table(_HEADERS, _NUMBERS).print([_row(job) for job in jobs])
    else:
        click.echo("no periodic job failed in its last run" if failed else "there are no periodic jobs", err=True)
    if found.left_out:
        names = ", ".join(sorted(found.left_out))
        click.echo(f"only some jobs were read; there may be more periodic jobs in: {names}", err=True)


def _row(job: PeriodicJob) -> list[str]:
    last = job.last_failure
    return [
        job.queue,
        visible(job.name),
        visible(job.schedule),
        moment(job.due_ms),
        str(job.runs),
        str(job.failures),
        "-" if last is None else moment(last.at_ms),
        "-" if last is None else visible(last.error),
    ]


def _json(job: PeriodicJob) -> dict[str, Any]:
    last = job.last_failure
    return {
        **job._asdict(),
        "last_failure": None if last is None else {"at_ms": last.at_ms, "error": last.error},
        "info": job_json(job.info._replace(body=None)),
    }
