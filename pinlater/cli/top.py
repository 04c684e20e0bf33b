"""``pinlater top``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import print_json
from pinlater.durations import DURATION, Duration

if TYPE_CHECKING:
    from pinlater.cli.snapshots import QueueSnapshot


@command(
    "top",
    common=WITH_TABLE,
    examples="""
    pinlater top
    pinlater top email reports --interval 5
    pinlater top --once --json
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option(
    "--interval",
    type=Duration(min=0.2),
    default=2.0,
    metavar=DURATION,
    help="Refresh interval; longer with very many queues.  [default: 2s]",
)
@click.option("--once", is_flag=True, help="Print the table once, for scripts; implied by --json.")
def top(session: Session, /, *, queues: tuple[str, ...], interval: float, once: bool) -> None:
    """Show queues live: job counts, rates and wait times.

    Queues with the longest wait come first. Keys: left and right select the sort column, r reverses the order, /
    filters by part of a name, up, down, page up and page down scroll, q or ^C quits. For each priority, the
    server counts up to its COUNT_LIMIT; ENDED/S is computed from changes of the counts.
    """
    once = once or session.as_json
    if not once and not sys.stdout.isatty():
        raise click.UsageError("Stdout is not a terminal; add --once.")
    import asyncio  # here and below: the help of the program, which imports all commands, needs none of this

    from pinlater.cli.top_watch import read_once, watch

    if once:
        _print(session, asyncio.run(read_once(session, queues)))
    else:
        asyncio.run(watch(session, queues, interval))


def _print(session: Session, snapshots: list[QueueSnapshot]) -> None:
    from pinlater.cli.top_view import TopView

    if session.as_json:
        print_json([_json(snapshot) for snapshot in snapshots])
        return
    view = TopView()
    view.show(snapshots)
    for line in view.table(session.table_width):
        click.echo(line)


def _json(snapshot: QueueSnapshot) -> dict[str, Any]:
    fields = snapshot._asdict()
    fields.pop("at")
    return fields
