"""``pinlater retry-failed``."""

from __future__ import annotations

from typing import Any

import click

from pinlater.cli.bulk_action import BulkAction
from pinlater.cli.bulk_options import BulkOptions, with_unasked_options
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import Filter, with_filter
from pinlater.cli.job_selection import JobSelection
from pinlater.client.store_time import now_ms_at
from pinlater.durations import DURATION, parse_duration
from pinlater.model.state import JobState

ATTEMPTS_OF_RETRY = click.option(
    "--attempts", type=click.IntRange(min=1), default=1, show_default=True, help="Attempts for each job."
)
_RETRY = BulkAction("retry", "retrying", "retried")


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
@ATTEMPTS_OF_RETRY
@click.option(
    "--delay", type=parse_duration, metavar=DURATION, help="Run after this time at the earliest, such as 90s or 2h."
)
@with_unasked_options
def retry_failed(
    session: Session,
    /,
    *,
    queue: str,
    job_filter: Filter,
    attempts: int,
    delay: float | None,
    options: BulkOptions,
) -> int:
    """Retry failed jobs: make them pending again.

    Retries all failed jobs of all priorities, unless limited by --priority, --limit or a filter. With a filter, the
    tool reads and filters the jobs first. ^C stops after the current batch and prints how many jobs were retried.

    A job that has undone its steps fails again, unless it catches SagaUndone: enqueue a new one instead. One that could
    not undo all of them goes on to undo the rest.

    For single jobs, see "pinlater retry".
    """
    with session.client() as client:
        run_after_ms = None if delay is None else now_ms_at(client) + int(delay * 1000)
        change: dict[str, Any] = {"attempts": attempts, "run_after_ms": run_after_ms}
        return _RETRY.carry_out(
            client,
            JobSelection(queue, JobState.FAILED, job_filter),
            options,
            lambda part: client.retry_these(queue, part, **change),
            lambda priority, some: client.retry_failed(queue, priority=priority, limit=some, **change),
            as_json=session.as_json,
        )
