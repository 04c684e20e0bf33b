"""``pinlater migrate-queue``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.cli.batches import progress_bar
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import print_fields, print_json, some_jobs
from pinlater.durations import DURATION, Duration
from pinlater.errors import DequeueRateLimited
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
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="Server of the target store.")
@click.option("--copy", is_flag=True, help="Copy instead of move: leave the source unchanged.")
@click.option("--new-name", metavar="NAME", help="Name of the queue in the target store.  [default: the same]")
@click.option("--succeeded", is_flag=True, help="Also migrate succeeded jobs.")
@click.option(
    "--patience",
    type=Duration(min=0),
    default=60.0,
    metavar=DURATION,
    help="Time to wait for running jobs at the source.  [default: 60s]",
)
def migrate_queue(
    session: Session, /, *, queue: str, target: str, copy: bool, new_name: str | None, succeeded: bool, patience: float
) -> int:
    """Move or copy a queue to another store.

    Jobs keep their attempts, times, statuses and keys. Both servers have to be running. First switch producers
    and workers to the target, then move the remaining jobs: they are claimed at the source, so that no job is both run
    there and moved. Running jobs end at the source; those that fail are moved.

    Jobs that have called others or waited for events stay at the source, and so do the called ones: let them end there.

    The command can be interrupted and repeated: a job that is pending at the target is not stored twice. A repeated
    --copy stores ended jobs twice. If a shard of the source does not answer, the command refuses to go on: repeat it
    when the shard answers. Exit status 1 if jobs have stayed at the source, or were still running there.
    """
    name = new_name or queue
    if not QUEUE_NAME.fullmatch(name):
        raise click.UsageError(f"--new-name {name}: a queue name may contain only letters, digits and underscores.")
    from pinlater.client.migration import Migration

    with session.client() as source, session.client(target) as other:
        migration = Migration(source, other, queue, name, with_succeeded=succeeded)
        expected = migration.expected()  # first, so that no target is created for a queue that does not exist
        other.create_queue(name)
        running = _migrate(migration, expected, copy=copy, patience_seconds=patience)
    _print(session, migration, "copied" if copy else "moved")
    if running:
        click.echo(
            f"{some_jobs(running)} still running at the source; repeat the command when they have ended", err=True
        )
    if migration.left:
        click.echo(
            f"{some_jobs(len(migration.left))} stayed at the source, since they have called other jobs or waited for "
            "events, or another job waits for them; let workers run them there",
            err=True,
        )
    return 1 if running or migration.left else 0


def _migrate(migration: Migration, expected: int, *, copy: bool, patience_seconds: float) -> int:
    """Move or copy with a progress bar; return how many jobs are still running at the source."""
    with progress_bar(expected, migration.queue) as progress:
        migration.on_progress = progress.update
        if copy:
            migration.copy()
            return 0
        try:
            return migration.move(patience_seconds)
        except DequeueRateLimited as error:
            lift = f"pinlater limit {migration.queue} --rate 0, or pinlater resume {migration.queue}"
            raise click.ClickException(
                f"{some_jobs(migration.moved.total())} moved; the others have to be claimed at the source, but "
                f"{error}: lift that ({lift}), and repeat the command"
            ) from error


def _print(session: Session, migration: Migration, verb: str) -> None:
    if session.as_json:
        print_json({verb: migration.moved})
        return
    click.echo(f"{some_jobs(migration.moved.total())} {verb}")
    print_fields([(kind, str(count)) for kind, count in migration.moved.items() if count])
