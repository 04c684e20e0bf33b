"""``pinlater top``."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import print_json
from pinlater.durations import NumberRange
from pinlater.errors import PinLaterError, QueueNotFound

if TYPE_CHECKING:
    from pinlater.cli.snapshots import QueueSnapshot
    from pinlater.cli.terminal import Terminal
    from pinlater.cli.top_view import TopView

_REST = 4
"""Reading takes at most a fifth of the time, whatever the interval, to limit the load on the server."""

_LONG_SECONDS = 3600.0


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
    type=NumberRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval; longer with very many queues.",
)
@click.option("--once", is_flag=True, help="Print the table once, for scripts; implied by --json.")
@click.pass_obj
def top(session: Session, /, *, queues: tuple[str, ...], interval: float, once: bool) -> None:
    """Show queues live: job counts, rates and wait times.

    Queues with the longest wait come first. Keys: left and right select the sort column, r reverses the order, /
    filters by part of a name, up, down, page up and page down scroll, q or ^C quits. For each priority, the
    server counts up to its COUNT_LIMIT; ENDED/S is computed from changes of the counts.
    """
    once = once or session.as_json
    if not once and not sys.stdout.isatty():
        raise click.UsageError("Stdout is not a terminal; add --once.")
    if once:
        _print(session, asyncio.run(_read_once(session, queues)))
    else:
        asyncio.run(_watch(session, queues, interval))


async def _read_once(session: Session, queues: Sequence[str]) -> list[QueueSnapshot]:
    from pinlater.cli.snapshots import read_snapshots

    async with session.async_client() as client:
        snapshots = await read_snapshots(client, queues)
    missing = set(queues) - {snapshot.queue for snapshot in snapshots}
    if missing:
        raise QueueNotFound(f"there is no queue {min(missing)!r}")
    return snapshots


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
    return {**fields, "settings": snapshot.settings and snapshot.settings._asdict()}


async def _watch(session: Session, queues: Sequence[str], interval: float) -> None:
    from pinlater.cli.snapshots import read_snapshots
    from pinlater.cli.terminal import Terminal
    from pinlater.cli.top_view import TopView

    view = TopView(is_wide=session.is_wide)
    with Terminal(view.press) as terminal:
        async with session.async_client() as client:
            while not terminal.ended.is_set():
                started = time.monotonic()
                reading = asyncio.create_task(read_snapshots(client, queues))
                await _follow(reading, terminal, view)
                if reading.cancelled() or terminal.ended.is_set():
                    break
                try:
                    view.show(reading.result())
                except PinLaterError as error:
                    view.fail(str(error))
                await _rest_of(interval, started, terminal, view)


async def _follow(reading: asyncio.Task[Any], terminal: Terminal, view: TopView) -> None:
    """Show the view, as keys change it, until a task is done; cancel it when the user quits."""
    while not reading.done() and not terminal.ended.is_set():
        _draw(terminal, view)
        change = asyncio.create_task(terminal.rest(_LONG_SECONDS))
        await asyncio.wait([reading, change], return_when=asyncio.FIRST_COMPLETED)
        change.cancel()
        await asyncio.wait([change])
    if not reading.done():
        reading.cancel()
        await asyncio.wait([reading])
    if not reading.cancelled():
        reading.exception()  # errors do not matter when the user quits


async def _rest_of(interval: float, started: float, terminal: Terminal, view: TopView) -> None:
    """Show the view until the next refresh; again when a key or the window size changes it."""
    until = started + max(interval, (time.monotonic() - started) * (_REST + 1))
    while not terminal.ended.is_set() and (left := until - time.monotonic()) > 0:
        _draw(terminal, view)
        await terminal.rest(left)


def _draw(terminal: Terminal, view: TopView) -> None:
    size = terminal.size
    terminal.show(view.lines(size.columns, size.lines))
