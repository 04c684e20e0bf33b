"""``pinlater periodic``: the periodic jobs, and which of them fail."""

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
@click.option("--failed", is_flag=True, help="Only jobs whose last run has failed.")
@click.pass_obj
def periodic(session: Session, /, *, queues: tuple[str, ...], failed: bool) -> None:
    """List periodic jobs, those that fail first.

    Of some queues, or of all. A run has failed when all its attempts have; the job runs again at its next time. FAILED
    counts the runs that have failed one after the other until now. LAST FAILURE and ERROR are of the last attempt that
    failed, however long ago.
    """
    with session.client() as client:
        found = client.periodic_jobs(queues)
    jobs = [job for job in found.jobs if job.failures or not failed]
    if session.as_json:
        print_json([_json(job) for job in jobs])
    elif jobs:
        Table(_HEADERS, _NUMBERS).print([_row(job) for job in jobs])
    else:
        click.echo("no periodic job has failed at its last run" if failed else "there is no periodic job", err=True)
    if found.left_out:
        names = ", ".join(sorted(found.left_out))
        click.echo(f"not all jobs were looked at; there may be periodic ones among the others of: {names}", err=True)


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
