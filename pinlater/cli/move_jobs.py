"""``pinlater move-jobs``."""

from __future__ import annotations

import click

from pinlater.cli.bulk_action import BulkAction
from pinlater.cli.bulk_options import BulkOptions, with_bulk_options
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.filters import Filter, with_filter
from pinlater.cli.job_selection import JobSelection
from pinlater.cli.output import some_jobs
from pinlater.errors import QueueNotFound
from pinlater.model.state import JobState

_MOVE = BulkAction("move", "moving", "moved")


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
    "--to", metavar="QUEUE", required=True, shell_complete=complete_queues, help="Target queue, which must exist."
)
@click.option(
    "--state", type=click.Choice(["pending", "failed"], case_sensitive=False), required=True, help="State of the jobs."
)
@with_filter
@click.option("--retry", is_flag=True, help="Make failed jobs pending in the target queue.")
@click.option(
    "--attempts", type=click.IntRange(min=1), help="Attempts for each failed job; implies --retry.  [default: 1]"
)
@with_bulk_options
def move_jobs(
    session: Session,
    /,
    *,
    queue: str,
    to: str,
    state: str,
    job_filter: Filter,
    retry: bool,
    attempts: int | None,
    options: BulkOptions,
) -> int:
    """Move pending or failed jobs to another queue of the server.

    The tool reads and filters the jobs first; with --limit, it moves those due latest. It shows the number of jobs and
    asks for confirmation, unless --yes is given. Jobs keep their attempts, times, statuses, priorities and keys;
    "moved from" and the old descriptor are added to the status. To move jobs between stores, see "pinlater
    migrate-queue".

    A due job can run in the target queue after ten seconds, when it is certain that no worker of the old queue has it.
    Jobs that a worker claims in the meantime are not moved, nor are jobs whose unique key exists in the target queue,
    jobs that have called others or waited for events, and jobs that others wait for. The command can be interrupted and
    repeated: no job is lost, and none is moved twice. ^C stops after the current batch.

    Without --yes, exit status 1 if the answer is no or there are no jobs to move.
    """
    if (retry or attempts) and state != "failed":
        raise click.UsageError("--retry and --attempts are for failed jobs; add --state failed.")
    options.require_confirmation()
    from pinlater.client.moving import Move

    selection = JobSelection(queue, JobState[state.upper()], job_filter)
    move = Move(queue, to, selection.state, attempts or (1 if retry else None))
    with session.client() as client:
        if to not in client.queue_names():
            raise QueueNotFound(f"there is no queue {to!r}; create it first (pinlater create-queue {to})")
        found = selection.find_in_order(client, options.limit)
        if not (options.dry_run or options.yes) and not _MOVE.confirm(str(len(found)) if found else "", selection, to):
            return 1
        if not options.dry_run:
            _MOVE.run_in_batches(found, lambda part: client.move_these(move, part))
    number = len(found) if options.dry_run else move.moved
    _MOVE.report(number, dry_run=options.dry_run, as_json=session.as_json, left=move.left)
    if move.left:
        reason = (
            f"claimed or changed in the meantime, {to} has a job with the same unique key, they have called other jobs "
            "or waited for events, or another job waits for them"
        )
        click.echo(f"{some_jobs(move.left)} stayed in {queue}: {reason}", err=True)
    return 0
