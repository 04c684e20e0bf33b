"""``pinlater delete-jobs``, which asks first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pinlater.client.tool.command import PRIORITY, STATES, Session, command, parse_state
from pinlater.client.tool.output import print_json, some_jobs
from pinlater.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client


@command(
    "delete-jobs",
    examples="""
    pinlater delete-jobs email --state failed
    pinlater delete-jobs email --state pending --regex 'user_id": *42\\b' --yes
    """,
)
@click.argument("queue")
@click.option("--state", type=parse_state, metavar=STATES, required=True, help="State of the jobs.")
@click.option("--priority", type=PRIORITY, default=1, show_default=True, help="Jobs of this priority level.")
@click.option("--regex", help="Only jobs with a match in their body.")
@click.option("--limit", type=click.IntRange(min=0), default=1000, show_default=True, help="At most so many jobs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_jobs(
    session: Session, /, *, queue: str, state: JobState, priority: int, regex: str | None, limit: int, yes: bool
) -> int:
    """Delete jobs of one state and priority level.

    Shows how many there are, and asks, unless told --yes.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("Nobody is there to ask; add --yes.")
    with session.client() as client:
        if not yes and not _confirmed(client, queue, state, priority=priority, regex=regex, limit=limit):
            return 1
        number = client.delete_jobs(queue, state, priority=priority, body_regex=regex, limit=limit)
    if session.as_json:
        print_json({"deleted": number})
    else:
        click.echo(f"{some_jobs(number)} deleted")
    return 0


def _confirmed(client: Client, queue: str, state: JobState, *, priority: int, regex: str | None, limit: int) -> bool:
    there = sum(
        client.count(queue, state, priority=priority, future=future, body_regex=regex)
        for future in ((False, True) if state is JobState.PENDING else (False,))
    )
    what = f"{state.name} jobs of priority {priority} in {queue}"
    if not there:
        click.echo(f"there are no {what}", err=True)
        return False
    return click.confirm(f"Delete {min(there, limit)} of {there} {what}?", err=True)
