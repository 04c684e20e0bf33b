"""``pinlater dequeue`` and ``pinlater ack``: claim and acknowledge jobs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import body_text, bytes_json, print_bytes, print_json
from pinlater.cli.tables import Table
from pinlater.durations import DURATION, Duration

if TYPE_CHECKING:
    from pinlater.model.attempts import ClaimedJob


@command(
    "dequeue",
    common=WITH_TABLE,
    examples="""
    pinlater dequeue email --dry-run --limit 10
    pinlater dequeue email --wait 30
    pinlater dequeue thumbnails --ack --raw > photo.jpg
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.option("--limit", type=click.IntRange(min=1), default=1, show_default=True, help="Maximum number of jobs.")
@click.option("--wait", type=Duration(min=0), default=0.0, metavar=DURATION, help="Wait this long for a job.")
@click.option("--dry-run", is_flag=True, help="Only show the jobs; do not claim them.")
@click.option("--ack", is_flag=True, help="Acknowledge the jobs as succeeded after printing them.")
@click.option("--raw", is_flag=True, help="Print only the bodies, byte for byte.")
def dequeue(session: Session, /, *, queue: str, limit: int, wait: float, dry_run: bool, ack: bool, raw: bool) -> int:
    """Claim jobs of a queue, as a worker does.

    Acknowledge claimed jobs with "pinlater ack"; otherwise the server hands them out again when the claim expires. Exit
    status 1 if no job is due.
    """
    if dry_run and ack:
        raise click.UsageError("--ack cannot be combined with --dry-run.")
    from pinlater.model.attempts import Ack

    with session.client() as client:
        jobs = client.dequeue_jobs(queue, limit, wait=wait, dry_run=dry_run)
        _print_jobs(session, jobs, raw=raw)
        if ack and jobs:
            client.ack(queue, succeeded=[Ack(job.descriptor, job.claim) for job in jobs])
    if jobs and not (dry_run or ack or session.as_json):
        click.echo(f"claimed; acknowledge with: pinlater ack {queue} DESCRIPTOR{_claim_hint(jobs)}", err=True)
    return 0 if jobs else 1


def _print_jobs(session: Session, jobs: Sequence[ClaimedJob], *, raw: bool) -> None:
    if raw:
        print_bytes(b"".join(job.body for job in jobs))
    elif session.as_json:
        for job in jobs:
            print_json(_job_json(job))
    elif jobs:
        rows = [[job.descriptor, _attempts(job), body_text(job.body)] for job in jobs]
        Table(["DESCRIPTOR", "ATTEMPTS LEFT", "BODY"], width=session.table_width, whole=[0]).print(rows)
    else:
        click.echo("no job is due", err=True)


def _attempts(job: ClaimedJob) -> str:
    return "-" if job.attempts_remaining is None else f"{job.attempts_remaining} of {job.attempts_allowed}"


def _job_json(job: ClaimedJob) -> dict[str, Any]:
    fields = job._asdict()
    return fields | bytes_json("body", fields.pop("body"))


def _claim_hint(jobs: Sequence[ClaimedJob]) -> str:
    return f" --claim '{jobs[0].claim}'" if jobs[0].claim else ""


@command(
    "ack",
    examples="""
    pinlater ack email email:s1:p1:42
    pinlater ack email email:s1:p1:42 --failed --status 'mail server is down' --retry-delay 600
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.argument("descriptors", nargs=-1, required=True)
@click.option("--failed", is_flag=True, help="Acknowledge as failed; the job is retried while attempts remain.")
@click.option("--final", is_flag=True, help="With --failed: do not retry, even if attempts remain.")
@click.option("--status", default="", help="Text to append to the job's status.")
@click.option(
    "--retry-delay",
    type=Duration(min=0),
    default=0.0,
    metavar=DURATION,
    help="With --failed: delay before the next attempt.",
)
@click.option("--claim", help="Acknowledge only if the job still has this claim; see dequeue.")
def ack(
    session: Session,
    /,
    *,
    queue: str,
    descriptors: tuple[str, ...],
    failed: bool,
    final: bool,
    status: str,
    retry_delay: float,
    claim: str | None,
) -> None:
    """Acknowledge claimed jobs as succeeded, or as --failed.

    Only running jobs change. The server does not report which did; see "pinlater lookup".
    """
    if not failed and (final or retry_delay):
        raise click.UsageError("--final and --retry-delay are for failed jobs; add --failed.")
    from pinlater.model.attempts import Ack

    acks = [Ack(descriptor, claim, status, retry_delay, final) for descriptor in descriptors]
    with session.client() as client:
        client.ack(queue, succeeded=[] if failed else acks, failed=acks if failed else [])
    if session.as_json:
        print_json({"sent": len(acks)})
