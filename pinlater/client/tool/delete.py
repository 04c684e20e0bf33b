"""``pinlater delete-jobs``, which asks first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pinlater.client.tool.bulk import Deed, refuse_unasked
from pinlater.client.tool.chosen import Wanted
from pinlater.client.tool.command import STATES, Session, command, parse_state
from pinlater.client.tool.completion import complete_queues, complete_states
from pinlater.client.tool.filters import Filter, with_filter
from pinlater.state import JobState

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
@with_filter(default_priority="1; with another filter, all")
@click.option("--regex", help="Only jobs with a match in their body; the server looks for it.")
@click.option("--limit", type=click.IntRange(min=0), default=1000, show_default=True, help="At most so many jobs.")
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
    limit: int,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete jobs of one state.

    Shows how many there are, and asks, unless told --yes. Without a filter, or with --regex alone, the server takes
    those of one priority level. With a filter, the jobs are looked through here first, and those that match are deleted
    one by one, those due latest first. ^C ends it after the batch that is under way, and says how many were deleted.

    Exit status 1 when the answer is no, or there is nothing to delete.
    """
    refuse_unasked(yes=yes, dry_run=dry_run)
    with session.client() as client:
        if which.is_for_server:
            at_one_level = replace(which, priority=which.priority or 1)
            wanted = Wanted(queue, state, at_one_level, body_regex=regex)
            number = _delete_by_server(client, wanted, limit=limit, dry_run=dry_run, yes=yes)
        else:
            wanted = Wanted(queue, state, which, body_regex=regex)
            number = _delete_found(client, wanted, limit=limit, dry_run=dry_run, yes=yes)
    if number is None:
        return 1
    _DELETE.report(number, dry_run=dry_run, as_json=session.as_json)
    return 0


def _delete_by_server(client: Client, wanted: Wanted, *, limit: int, dry_run: bool, yes: bool) -> int | None:
    """Return how many were deleted; None if that was not wanted in the end."""
    if dry_run or not yes:
        there = wanted.count(client)
        if dry_run:
            return min(there, limit)
        if not _DELETE.confirmed(f"{min(there, limit)} of {there}" if there else "", wanted):
            return None
    return _DELETE.do_up_to(
        limit,
        lambda some: client.delete_jobs(
            wanted.queue, wanted.state, priority=wanted.which.priority or 1, body_regex=wanted.body_regex, limit=some
        ),
    )


def _delete_found(client: Client, wanted: Wanted, *, limit: int, dry_run: bool, yes: bool) -> int | None:
    """Delete those that match here; return as ``_delete_by_server``."""
    found = wanted.find(client, limit)
    if dry_run:
        return len(found)
    if not yes and not _DELETE.confirmed(str(len(found)) if found else "", wanted):
        return None
    return _DELETE.do_in_batches(found, lambda part: client.delete_these(wanted.queue, part, wanted.state))
