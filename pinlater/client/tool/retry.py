"""``pinlater retry-failed``: another chance for jobs that have failed."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from pinlater.client.tool.chosen import WHERE_HELP, Wanted, do_in_batches, do_up_to, parse_where
from pinlater.client.tool.command import PRIORITY, Session, command
from pinlater.client.tool.completion import complete_queues
from pinlater.client.tool.output import print_json, some_jobs
from pinlater.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client


@command(
    "retry-failed",
    examples="""
    pinlater retry-failed email
    pinlater retry-failed email --attempts 3 --delay 600 --limit 50
    pinlater retry-failed email --where 'ConnectionRefused' --dry-run
    pinlater retry-failed email --where 'SMTP 4[0-9][0-9]' --limit 100000
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.option("--priority", type=PRIORITY, help="Jobs of this priority level.  [default: 1; with --where, all]")
@click.option("--attempts", type=click.IntRange(min=1), default=1, show_default=True, help="Attempts they get.")
@click.option(
    "--delay", type=click.FloatRange(min=0), metavar="SECONDS", help="Do not run before this time has passed."
)
@click.option("--where", type=parse_where, metavar="TEXT", help=WHERE_HELP)
@click.option("--limit", type=click.IntRange(min=0), default=1000, show_default=True, help="At most so many jobs.")
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@click.pass_obj
def retry_failed(
    session: Session,
    /,
    *,
    queue: str,
    priority: int | None,
    attempts: int,
    delay: float | None,
    where: re.Pattern[str] | None,
    limit: int,
    dry_run: bool,
) -> None:
    """Give failed jobs another chance: they are pending again.

    With --where, the failed jobs are looked through here first, and those that match are retried one by one.
    """
    run_after_ms = None if delay is None else int((time.time() + delay) * 1000)
    wanted = Wanted(queue, JobState.FAILED, priority if where else priority or 1, where)
    with session.client() as client:
        number = _retry(client, wanted, attempts, run_after_ms, limit=limit, dry_run=dry_run)
    if session.as_json:
        print_json({"would_retry" if dry_run else "retried": number})
    else:
        click.echo(f"{some_jobs(number)} {'would be ' if dry_run else ''}retried")


def _retry(
    client: Client, wanted: Wanted, attempts: int, run_after_ms: int | None, *, limit: int, dry_run: bool
) -> int:
    queue = wanted.queue
    if wanted.where is not None:
        found = wanted.find(client, limit)
        if dry_run:
            return len(found)
        return do_in_batches(
            found,
            "retrying",
            lambda part: client.retry_these(queue, part, attempts=attempts, run_after_ms=run_after_ms),
        )
    if dry_run:
        return min(wanted.count(client), limit)
    priority = wanted.priority or 1
    return do_up_to(
        limit,
        "retrying",
        lambda some: client.retry_failed(
            queue, priority=priority, attempts=attempts, run_after_ms=run_after_ms, limit=some
        ),
    )
