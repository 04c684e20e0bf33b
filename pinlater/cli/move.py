"""``pinlater move-jobs``: from one queue of a server to another."""

from __future__ import annotations

import click

from pinlater.cli.bulk_action import Deed, refuse_unasked
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import Filter, with_filter
from pinlater.cli.job_selection import Wanted
from pinlater.cli.output import some_jobs
from pinlater.errors import QueueNotFound
from pinlater.model.state import JobState

_MOVE = Deed("move", "moving", "moved")


@command(
    "move-jobs",
    examples="""
    pinlater move-jobs thumbnails --to thumbnails_big --state failed --error MemoryError --retry
    pinlater move-jobs email --to email_bulk --state pending --job SendNewsletter --limit 100000
    pinlater move-jobs email --to email_odd --state failed --where 'user_id": *42\\b' --dry-run
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.option(
    "--to", metavar="QUEUE", required=True, shell_complete=complete_queues, help="The queue they go to; it is there."
)
@click.option(
    "--state", type=click.Choice(["pending", "failed"], case_sensitive=False), required=True, help="State of the jobs."
)
@with_filter
@click.option("--retry", is_flag=True, help="Failed jobs are pending in the new queue, instead of failed.")
@click.option(
    "--attempts", type=click.IntRange(min=1), help="Attempts that they get then; implies --retry.  [default: 1]"
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many jobs.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def move_jobs(
    session: Session,
    /,
    *,
    queue: str,
    to: str,
    state: str,
    which: Filter,
    retry: bool,
    attempts: int | None,
    limit: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Move jobs to another queue of the server.

    The pending or failed jobs are looked through here first, and those that match are moved; with --limit, those due
    latest. Shows how many there are, and asks, unless told --yes. Attempts, times, statuses,
    priorities and unique keys come along; the status says "moved from" and the old descriptor. Between stores:
    pinlater migrate-queue.

    A job that is due runs ten seconds later in the new queue: until then it is known that no worker of the old one
    was faster. Those that a worker has claimed meanwhile stay where they are; so does a job whose unique key another
    one has there. It may be interrupted (^C ends it after the batch under way) and started again: no job is lost,
    and none is moved twice.

    Exit status 1 when the answer is no, or there is nothing to move.
    """
    if (retry or attempts) and state != "failed":
        raise click.UsageError("--retry and --attempts are about failed jobs; add --state failed.")
    refuse_unasked(yes=yes, dry_run=dry_run)
    from pinlater.client.moving import Move

    wanted = Wanted(queue, JobState[state.upper()], which)
    move = Move(queue, to, wanted.state, attempts or (1 if retry else None))
    with session.client() as client:
        if to not in client.queue_names():
            raise QueueNotFound(f"there is no queue {to!r}; create it first (pinlater create-queue {to})")
        found = wanted.find(client, limit)
        if not (dry_run or yes) and not _MOVE.confirmed(str(len(found)) if found else "", wanted, to):
            return 1
        if not dry_run:
            _MOVE.do_in_batches(found[::-1], lambda part: client.move_these(move, part))
    _MOVE.report(len(found) if dry_run else move.moved, dry_run=dry_run, as_json=session.as_json, left=move.left)
    if move.left:
        reason = f"claimed or changed meanwhile, or {to} has a job with the same unique key"
        click.echo(f"{some_jobs(move.left)} stayed in {queue}: {reason}", err=True)
    return 0
