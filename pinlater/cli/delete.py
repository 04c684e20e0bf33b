"""``pinlater delete-jobs``, which asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.cli.bulk_action import Deed, at_most, refuse_unasked
from pinlater.cli.command import STATES, Session, command, parse_state
from pinlater.cli.completion import complete_queues, complete_states
from pinlater.cli.filters import Filter, with_filter
from pinlater.cli.job_selection import Wanted
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client

_DELETE = Deed("delete", "deleting", "deleted")


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
@click.option(
    "--state",
    type=parse_state,
    metavar=STATES,
    shell_complete=complete_states,
    required=True,
    help="State of the jobs.",
)
@with_filter
@click.option("--regex", help="Only jobs with a match in their body; the server looks for it.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many jobs.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_jobs(
    session: Session,
    /,
    *,
    queue: str,
    state: JobState,
    which: Filter,
    regex: str | None,
    limit: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete jobs of one state.

    Shows how many there are, and asks, unless told --yes. All jobs are deleted, of all priorities, unless --priority,
    --limit or a filter says less. With a filter other than --regex, the jobs are looked through here first. ^C ends it
    after the batch that is under way, and says how many were deleted.

    Exit status 1 when the answer is no, or there is nothing to delete.
    """
    refuse_unasked(yes=yes, dry_run=dry_run)
    with session.client() as client:
        wanted = Wanted(queue, state, which, body_regex=regex)
        delete = _delete_by_server if which.is_for_server else _delete_found
        number = delete(client, wanted, limit=limit, dry_run=dry_run, yes=yes)
    if number is None:
        return 1
    _DELETE.report(number, dry_run=dry_run, as_json=session.as_json)
    return 0


def _delete_by_server(client: Client, wanted: Wanted, *, limit: int | None, dry_run: bool, yes: bool) -> int | None:
    """Return how many were deleted; None if that was not wanted in the end."""
    if dry_run or not yes:
        there = wanted.count(client)
        if dry_run:
            return at_most(there, limit)
        if not _DELETE.confirmed(f"{at_most(there, limit)} of {there}" if there else "", wanted):
            return None
    return _DELETE.do_by_server(
        client,
        wanted,
        limit,
        lambda priority, some: client.delete_jobs(
            wanted.queue, wanted.state, priority=priority, body_regex=wanted.body_regex, limit=some
        ),
    )


def _delete_found(client: Client, wanted: Wanted, *, limit: int | None, dry_run: bool, yes: bool) -> int | None:
    """Delete those that match here; return as ``_delete_by_server``."""
    found = wanted.find(client, limit)
    if dry_run:
        return len(found)
    if not yes and not _DELETE.confirmed(str(len(found)) if found else "", wanted):
        return None
    return _DELETE.do_in_batches(found, lambda part: client.delete_these(wanted.queue, part, wanted.state))
