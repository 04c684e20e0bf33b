"""``pinlater cancel-jobs``."""

from __future__ import annotations

import click

from pinlater.cli.bulk_action import BulkAction
from pinlater.cli.bulk_options import BulkOptions, with_bulk_options
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import REGEX, Filter, with_filter
from pinlater.cli.job_selection import JobSelection
from pinlater.model.state import JobState
from pinlater.model.status import cancelled_status

_CANCEL = BulkAction("cancel", "cancelling", "cancelled")
_STATES = {"pending": JobState.PENDING, "in-progress": JobState.IN_PROGRESS}


@command(
    "cancel-jobs",
    examples="""
    pinlater cancel-jobs email --state pending
    pinlater cancel-jobs email --state pending --job SendNewsletter --reason "wrong list" --yes
    pinlater cancel-jobs reports --state in-progress --older-than 2h --dry-run
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.option("--state", type=click.Choice(list(_STATES)), required=True, help="State of the jobs.")
@with_filter
@REGEX
@click.option("--reason", default="", help="Text for the status of the jobs.")
@with_bulk_options
def cancel_jobs(
    session: Session,
    /,
    *,
    queue: str,
    state: str,
    job_filter: Filter,
    regex: str | None,
    reason: str,
    options: BulkOptions,
) -> int:
    """Cancel the jobs of a queue in one state, and their children.

    Pending jobs become FAILED at once, and are marked as cancelled. Running jobs are asked to stop, and may still
    succeed. Shows the number of jobs and asks for confirmation, unless --yes is given. ^C stops after the current
    batch and prints how many jobs were cancelled.

    Without --yes, exit status 1 if the answer is no or there are no jobs to cancel.
    """
    options.require_confirmation()
    status = cancelled_status(reason)
    with session.client() as client:
        selection = JobSelection(queue, _STATES[state], job_filter, body_regex=regex)
        return _CANCEL.carry_out(
            client,
            selection,
            options,
            lambda part: client.cancel_these(queue, part, status=status),
            as_json=session.as_json,
        )
