"""``pinlater migrate-queue``: from one store to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.cli.bulk_action import bar
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import print_fields, print_json, some_jobs
from pinlater.jobs.options import QUEUE_NAME

if TYPE_CHECKING:
    from pinlater.client.migration import Migration


@command(
    "migrate-queue",
    examples="""
    pinlater migrate-queue email --server localhost:9010 --to new-host:9010
    pinlater migrate-queue email --to new-host:9010 --copy --succeeded
    pinlater migrate-queue email --to localhost:9011 --new-name email_archive
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="Server of the store that jobs go to.")
@click.option("--copy", is_flag=True, help="Leave everything at the source as it is.")
@click.option("--new-name", metavar="NAME", help="Name of the queue at the target.  [default: the same]")
@click.option("--succeeded", is_flag=True, help="Take jobs along that are done, too.")
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for jobs that run at the source.",
)
@click.pass_obj
def migrate_queue(
    session: Session, /, *, queue: str, target: str, copy: bool, new_name: str | None, succeeded: bool, patience: float
) -> int:
    """Move or copy a queue to another store.

    Attempts, times, statuses and unique keys come along. Both servers run. Let producers and workers use the target
    first, then move what is left: jobs are claimed at the source, so none is run there and moved as well. Jobs that
    run at the source end there; those that fail are moved.

    It may be interrupted and started again: a job that waits at the target is not stored twice. A --copy that is
    repeated stores finished jobs twice. Exit status 1 when jobs still ran at the source in the end.
    """
    name = new_name or queue
    if not QUEUE_NAME.fullmatch(name):
        raise click.UsageError(f"--new-name {name}: a queue's name has letters, digits and underscore only.")
    from pinlater.client.migration import Migration

    with session.client() as source, session.client(target) as other:
        other.create_queue(name)
        migration = Migration(source, other, queue, name, with_succeeded=succeeded)
        running = _carry_over(migration, copy=copy, patience_seconds=patience)
    _print(session, migration, "copied" if copy else "moved")
    if running:
        click.echo(f"{some_jobs(running)} still ran at the source; run this again when they have ended", err=True)
    return 1 if running else 0


def _carry_over(migration: Migration, *, copy: bool, patience_seconds: float) -> int:
    """Do it, with a bar where somebody can see it; return how many jobs still ran."""
    with bar(migration.expected(), migration.queue) as progress:
        migration.on_progress = progress.update
        if copy:
            migration.copy()
            return 0
        return migration.move(patience_seconds)


def _print(session: Session, migration: Migration, verb: str) -> None:
    moved = migration.moved
    counts = {"due": moved.due, "scheduled": moved.scheduled, "failed": moved.failed, "succeeded": moved.succeeded}
    if session.as_json:
        print_json({verb: counts})
        return
    click.echo(f"{some_jobs(moved.total)} {verb}")
    print_fields([(kind, str(count)) for kind, count in counts.items() if count])
