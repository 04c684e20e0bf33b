"""``pinlater delete-jobs``, which asks first."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from pinlater.client.tool.chosen import WHERE_HELP, Wanted, do_in_batches, do_up_to, parse_where
from pinlater.client.tool.command import PRIORITY, STATES, Session, command, parse_state
from pinlater.client.tool.completion import complete_queues, complete_states
from pinlater.client.tool.output import print_json, some_jobs
from pinlater.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client


@command(
    "delete-jobs",
    examples="""
    pinlater delete-jobs email --state failed
    pinlater delete-jobs email --state pending --regex 'user_id": *42\\b' --yes
    pinlater delete-jobs email --state failed --where 'address unknown' --dry-run
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
@click.option("--priority", type=PRIORITY, help="Jobs of this priority level.  [default: 1; with --where, all]")
@click.option("--regex", help="Only jobs with a match in their body; the server looks for it.")
@click.option("--where", type=parse_where, metavar="TEXT", help=WHERE_HELP)
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
    priority: int | None,
    regex: str | None,
    where: re.Pattern[str] | None,
    limit: int,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete jobs of one state.

    Shows how many there are, and asks, unless told --yes. With --where, the jobs are looked through here first, and
    those that match are deleted one by one.
    """
    if where is not None and regex is not None:
        raise click.UsageError("--where looks into bodies, too; leave out --regex.")
    if not (yes or dry_run or sys.stdin.isatty()):
        raise click.UsageError("Nobody is there to ask; add --yes.")
    wanted = Wanted(queue, state, priority if where else priority or 1, where)
    with session.client() as client:
        if where is None:
            number = _delete_by_server(client, wanted, regex, limit=limit, dry_run=dry_run, yes=yes)
        else:
            number = _delete_found(client, wanted, limit=limit, dry_run=dry_run, yes=yes)
    if number is None:
        return 1
    if session.as_json:
        print_json({"would_delete" if dry_run else "deleted": number})
    else:
        click.echo(f"{some_jobs(number)} {'would be ' if dry_run else ''}deleted")
    return 0


def _delete_by_server(
    client: Client, wanted: Wanted, regex: str | None, *, limit: int, dry_run: bool, yes: bool
) -> int | None:
    """Return how many were deleted; None if that was not wanted in the end."""
    queue, state, priority = wanted.queue, wanted.state, wanted.priority or 1
    if dry_run or not yes:
        there = wanted.count(client, body_regex=regex)
        if dry_run:
            return min(there, limit)
        if not _confirmed(f"{min(there, limit)} of {there}" if there else "", wanted):
            return None
    return do_up_to(
        limit,
        "deleting",
        lambda some: client.delete_jobs(queue, state, priority=priority, body_regex=regex, limit=some),
    )


def _delete_found(client: Client, wanted: Wanted, *, limit: int, dry_run: bool, yes: bool) -> int | None:
    """Delete those that match here; return as ``_delete_by_server``."""
    found = wanted.find(client, limit)
    if dry_run:
        return len(found)
    if not yes and not _confirmed(str(len(found)) if found else "", wanted):
        return None
    return do_in_batches(found, "deleting", lambda part: client.delete_these(wanted.queue, part, wanted.state))


def _confirmed(number: str, wanted: Wanted) -> bool:
    level = "" if wanted.priority is None else f" of priority {wanted.priority}"
    what = f"{wanted.state.name} jobs{level} in {wanted.queue}"
    if not number:
        click.echo(f"there are no {what}{' that match' if wanted.where else ''}", err=True)
        return False
    return click.confirm(f"Delete {number} {what}?", err=True)
