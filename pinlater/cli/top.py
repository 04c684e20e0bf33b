"""``pinlater top``."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import aligned, duration, print_json, visible
from pinlater.errors import PinLaterError, QueueNotFound

if TYPE_CHECKING:
    from pinlater.cli.snapshots import QueueSnapshot

_HEADERS = ("QUEUE", "DUE", "SCHEDULED", "RUNNING", "FAILED", "SUCCEEDED", "ENDED/S", "OLDEST WAITS", "STATE")
_REST = 4
"""Reading takes at most a fifth of the time, whatever the interval, to limit the load on the server."""


@command(
    "top",
    examples="""
    pinlater top
    pinlater top email reports --interval 5
    pinlater top --once --json
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval; longer with very many queues.",
)
@click.option("--once", is_flag=True, help="Print the table once, for scripts; implied by --json.")
@click.pass_obj
def top(session: Session, /, *, queues: tuple[str, ...], interval: float, once: bool) -> None:
    """Show queues live: job counts, rates and wait times.

    Queues with the longest wait come first. Press q or ^C to quit. For each priority, the server counts up to its
    COUNT_LIMIT; ENDED/S is computed from changes of the counts.
    """
    once = once or session.as_json
    if not once and not sys.stdout.isatty():
        raise click.UsageError("Stdout is not a terminal; add --once.")
    if once:
        _print(asyncio.run(_read_once(session, queues)), as_json=session.as_json)
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


def _print(snapshots: list[QueueSnapshot], *, as_json: bool) -> None:
    if as_json:
        print_json([_json(snapshot) for snapshot in snapshots])
        return
    for line in table(snapshots, {}):
        click.echo(line)


def _json(snapshot: QueueSnapshot) -> dict[str, Any]:
    fields = snapshot._asdict()
    fields.pop("at")
    return {**fields, "settings": snapshot.settings and snapshot.settings._asdict()}


async def _watch(session: Session, queues: Sequence[str], interval: float) -> None:
    from pinlater.cli.snapshots import read_snapshots
    from pinlater.cli.terminal import Terminal

    before: dict[str, QueueSnapshot] = {}
    lines = ["loading ..."]
    with Terminal() as terminal:
        async with session.async_client() as client:
            while not terminal.ended.is_set():
                terminal.show([*lines, "", "press q to quit"])
                started = time.monotonic()
                reading = asyncio.create_task(read_snapshots(client, queues))
                await _first(reading, terminal.ended)
                if reading.cancelled() or terminal.ended.is_set():
                    break
                try:
                    snapshots = reading.result()
                except PinLaterError as error:
                    lines = [f"{_clock()}  {visible(str(error))}; retrying", "", *lines[2:]]
                else:
                    lines = [f"{_clock()}  {len(snapshots)} queues", "", *table(snapshots, before)]
                    before = {snapshot.queue: snapshot for snapshot in snapshots}
                terminal.show([*lines, "", "press q to quit"])
                await _rest_of(interval, started, terminal, lines)


async def _first(reading: asyncio.Task[Any], ended: asyncio.Event) -> None:
    """Wait for a task, or cancel it when the user quits."""
    end = asyncio.create_task(ended.wait())
    await asyncio.wait([reading, end], return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if not reading.done():
        reading.cancel()
        await asyncio.wait([reading])
    if not reading.cancelled():
        reading.exception()  # errors do not matter when the user quits


async def _rest_of(interval: float, started: float, terminal: Any, lines: list[str]) -> None:
    """Wait for the next refresh; redraw when the window size changes."""
    until = started + max(interval, (time.monotonic() - started) * (_REST + 1))
    while not terminal.ended.is_set() and (left := until - time.monotonic()) > 0:
        await terminal.rest(left)
        terminal.show([*lines, "", "press q to quit"])


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def table(snapshots: Sequence[QueueSnapshot], before: Mapping[str, QueueSnapshot]) -> list[str]:
    """Return the lines of a table of queues, the longest waits first."""
    ranked = sorted(snapshots, key=lambda snapshot: (-(snapshot.wait_seconds or 0.0), -snapshot.due, snapshot.queue))
    rows = [_row(snapshot, before.get(snapshot.queue)) for snapshot in ranked]
    return aligned([_HEADERS, *rows], numbers=range(1, 8))


def _row(snapshot: QueueSnapshot, before: QueueSnapshot | None) -> list[str]:
    ended = snapshot.ended_since(before)
    return [
        snapshot.queue,
        *(
            f"{number:,}"
            for number in (snapshot.due, snapshot.scheduled, snapshot.running, snapshot.failed, snapshot.succeeded)
        ),
        "-" if ended is None else f"{ended:,.1f}",
        "-" if snapshot.wait_seconds is None else duration(snapshot.wait_seconds),
        _state(snapshot),
    ]


def _state(snapshot: QueueSnapshot) -> str:
    settings = snapshot.settings
    if settings is None:
        return "-"
    parts = ["paused"] if settings.is_paused else []
    if settings.jobs_per_second is not None:
        parts.append(f"{settings.jobs_per_second:g}/s")
    if settings.max_running is not None:
        parts.append(f"{settings.max_running} at once")
    return ", ".join(parts) or "open"
