"""``pinlater top`` at work: reads the queues again and again, and shows them in a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from pinlater.cli.command import Session
from pinlater.cli.snapshots import QueueSnapshot, read_snapshots
from pinlater.cli.terminal import Terminal
from pinlater.cli.top_view import TopView
from pinlater.errors import PinLaterError, QueueNotFound

_REST = 4
"""Reading takes at most a fifth of the time, whatever the interval, to limit the load on the server."""

_LONG_SECONDS = 3600.0


async def read_once(session: Session, queues: Sequence[str]) -> list[QueueSnapshot]:
    """Read the queues once; all queues if none are named.

    Raises:
        QueueNotFound: there is no such queue.
    """
    async with session.async_client() as client:
        snapshots = await read_snapshots(client, queues)
    missing = set(queues) - {snapshot.queue for snapshot in snapshots}
    if missing:
        raise QueueNotFound(f"there is no queue {min(missing)!r}")
    for snapshot in snapshots:
        session.missing_shards.update(snapshot.missing_shards)
    return snapshots


async def watch(session: Session, queues: Sequence[str], interval: float) -> None:
    """Show the queues until the user quits, read again every ``interval`` seconds or less often."""
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
    """Show the view, redrawn on each key, until a task is done; cancel the task when the user quits."""
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
