"""``pinlater delete-jobs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.cli.bulk_action import BulkAction, capped, require_confirmation
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import Filter, state_option, with_filter
from pinlater.cli.job_selection import JobSelection
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client

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
@click.option("--regex", help="Only jobs whose body matches this regular expression; the server searches.")
@click.option("--limit", type=click.IntRange(min=0), help="Maximum number of jobs.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only print the number of jobs.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_jobs(
    session: Session,
    /,
    *,
    queue: str,
    state: JobState,
    job_filter: Filter,
    regex: str | None,
    limit: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete the jobs of a queue in one state.

    Shows the number of jobs and asks for confirmation, unless --yes is given. Deletes all jobs of all priorities,
    unless limited by --priority, --limit or a filter. With --regex or a filter, the tool finds the jobs first. ^C stops
    after the current batch and prints how many jobs were deleted.

    Without --yes, exit status 1 if the answer is no or there are no jobs to delete.
    """
    require_confirmation(yes=yes, dry_run=dry_run)
    with session.client() as client:
        selection = JobSelection(queue, state, job_filter, body_regex=regex)
        delete = _delete_by_server if job_filter.is_for_server and regex is None else _delete_found
        number = delete(client, selection, limit=limit, dry_run=dry_run, yes=yes)
    if number is None:
        return 1
    _DELETE.report(number, dry_run=dry_run, as_json=session.as_json)
    return 0


def _delete_by_server(
    client: Client, selection: JobSelection, *, limit: int | None, dry_run: bool, yes: bool
) -> int | None:
    """Let the server delete the jobs; return their number, or None if the user declined."""
    if dry_run or not yes:
        there = selection.count(client)
        if dry_run:
            return capped(there, limit)
        if not _DELETE.confirm(f"{capped(there, limit)} of {there}" if there else "", selection):
            return None
    return _DELETE.run_on_server(
        client,
        selection,
        limit,
        lambda priority, some: client.delete_jobs(selection.queue, selection.state, priority=priority, limit=some),
    )


def _delete_found(
    client: Client, selection: JobSelection, *, limit: int | None, dry_run: bool, yes: bool
) -> int | None:
    """Find the jobs with the tool's own filters, and delete them; return the same as ``_delete_by_server``."""
    found = selection.find(client, limit)
    if dry_run:
        return len(found)
    if not yes and not _DELETE.confirm(str(len(found)) if found else "", selection):
        return None
    return _DELETE.run_in_batches(found, lambda part: client.delete_these(selection.queue, part, selection.state))
