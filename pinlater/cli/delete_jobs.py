"""``pinlater delete-jobs``."""

from __future__ import annotations

import click

from pinlater.cli.bulk_action import BulkAction
from pinlater.cli.bulk_options import BulkOptions, with_bulk_options
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import REGEX, Filter, state_option, with_filter
from pinlater.cli.job_selection import JobSelection
from pinlater.model.state import JobState

_DELETE = BulkAction("delete", "deleting", "deleted")


@command(
    "delete-jobs",
    examples="""
    pinlater delete-jobs email --state failed
    pinlater delete-jobs email --state pending --regex 'user_id": *42\\b' --yes
    pinlater delete-jobs email --state failed --error 'address unknown' --dry-run
    pinlater delete-jobs email --state failed --job SendNewsletter --older-than 7d --limit 100000
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@state_option(required=True, help="State of the jobs.")
@with_filter
@REGEX
@with_bulk_options
def delete_jobs(
    session: Session,
    /,
    *,
    queue: str,
    state: JobState,
    job_filter: Filter,
    regex: str | None,
    options: BulkOptions,
) -> int:
    """Delete the jobs of a queue in one state.

    Shows the number of jobs and asks for confirmation, unless --yes is given. Deletes all jobs of all priorities,
    unless limited by --priority, --limit or a filter. With --regex or a filter, the tool finds the jobs first. ^C stops
    after the current batch and prints how many jobs were deleted.

    Without --yes, exit status 1 if the answer is no or there are no jobs to delete.
    """
    options.require_confirmation()
    with session.client() as client:
        selection = JobSelection(queue, state, job_filter, body_regex=regex)
        return _DELETE.carry_out(
            client,
            selection,
            options,
            lambda part: client.delete_these(queue, part, state),
            lambda priority, some: client.delete_jobs(queue, state, priority=priority, limit=some),
            as_json=session.as_json,
        )
