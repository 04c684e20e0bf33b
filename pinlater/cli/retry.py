"""``pinlater retry-failed``: another chance for jobs that have failed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from pinlater.cli.bulk_action import Deed, at_most
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import Filter, with_filter
from pinlater.cli.job_selection import Wanted
from pinlater.durations import DURATION, parse_duration
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client

_RETRY = Deed("retry", "retrying", "retried")


@command(
    "retry-failed",
    examples="""
    pinlater retry-failed email
    pinlater retry-failed email --attempts 3 --delay 600 --limit 50
    pinlater retry-failed email --error ConnectionRefused --newer-than 2h --dry-run
    pinlater retry-failed email --job SendWelcomeEmail --where 'SMTP 4[0-9][0-9]' --limit 100000
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@with_filter
@click.option("--attempts", type=click.IntRange(min=1), default=1, show_default=True, help="Attempts they get.")
@click.option(
    "--delay", type=parse_duration, metavar=DURATION, help="Do not run before this time has passed, such as 90s or 2h."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many jobs.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@click.pass_obj
def retry_failed(
    session: Session,
    /,
    *,
    queue: str,
    which: Filter,
    attempts: int,
    delay: float | None,
    limit: int | None,
    dry_run: bool,
) -> None:
    """Give failed jobs another chance: they are pending again.

    All failed jobs are retried, of all priorities, unless --priority, --limit or a filter says less. With a filter, the
    jobs are looked through here first. ^C ends it after the batch that is under way, and says how many were retried.
    """
    run_after_ms = None if delay is None else int((time.time() + delay) * 1000)
    with session.client() as client:
        number = _retry(client, queue, which, attempts, run_after_ms, limit=limit, dry_run=dry_run)
    _RETRY.report(number, dry_run=dry_run, as_json=session.as_json)


def _retry(
    client: Client,
    queue: str,
    which: Filter,
    attempts: int,
    run_after_ms: int | None,
    *,
    limit: int | None,
    dry_run: bool,
) -> int:
    wanted = Wanted(queue, JobState.FAILED, which)
    if not which.is_for_server:
        found = wanted.find(client, limit)
        if dry_run:
            return len(found)
        return _RETRY.do_in_batches(
            found, lambda part: client.retry_these(queue, part, attempts=attempts, run_after_ms=run_after_ms)
        )
    if dry_run:
        return at_most(wanted.count(client), limit)
    return _RETRY.do_by_server(
        client,
        wanted,
        limit,
        lambda priority, some: client.retry_failed(
            queue, priority=priority, attempts=attempts, run_after_ms=run_after_ms, limit=some
        ),
    )
