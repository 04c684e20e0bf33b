"""``pinlater top``: the queues, live."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import PATIENCE_SECONDS, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import aligned, duration, print_json, visible
from pinlater.errors import PinLaterError, QueueNotFound

if TYPE_CHECKING:
    from pinlater.cli.snapshots import QueueLook
    from pinlater.client.async_client import AsyncClient

_HEADERS = ("QUEUE", "DUE", "SCHEDULED", "RUNNING", "FAILED", "SUCCEEDED", "ENDED/S", "OLDEST WAITS", "STATE")
_REST = 4
"""Looking takes a fifth of the time at most, whatever the interval: it is not to be what the server is busy with."""


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
    help="Time between two looks; with very many queues it is longer.",
)
@click.option("--once", is_flag=True, help="Look once, print it and end: for scripts; --json implies it.")
@click.pass_obj
def top(session: Session, /, *, queues: tuple[str, ...], interval: float, once: bool) -> None:
    """Watch queues live.

    It shows how many jobs are where, how many end, and how long the oldest due job waits; the longest waits come
    first. q or ^C ends it. Counts go no further than the server's COUNT_LIMIT for a priority, and ENDED/S is made of
    their changes.
    """
    once = once or session.as_json
    if not once and not sys.stdout.isatty():
        raise click.UsageError("Nobody is there to watch; add --once.")
    if once:
        _print(asyncio.run(_look_once(session, queues)), as_json=session.as_json)
    else:
        asyncio.run(_watch(session, queues, interval))


def _client(session: Session) -> AsyncClient:
    from pinlater.client.async_client import AsyncClient

    servers, timeout = session.server_set(), session.timeout
    return AsyncClient(servers, timeout=timeout, patience=PATIENCE_SECONDS, connections=8)


async def _look_once(session: Session, queues: Sequence[str]) -> list[QueueLook]:
    from pinlater.cli.snapshots import look_at_queues

    async with _client(session) as client:
        looks = await look_at_queues(client, queues)
    missing = set(queues) - {look.queue for look in looks}
    if missing:
        raise QueueNotFound(f"there is no queue {min(missing)!r}")
    return looks


def _print(looks: list[QueueLook], *, as_json: bool) -> None:
    if as_json:
        print_json([_json(look) for look in looks])
        return
    for line in table(looks, {}):
        click.echo(line)


def _json(look: QueueLook) -> dict[str, Any]:
    fields = look._asdict()
    fields.pop("at")
    return {**fields, "settings": look.settings and look.settings._asdict()}


async def _watch(session: Session, queues: Sequence[str], interval: float) -> None:
    from pinlater.cli.snapshots import look_at_queues
    from pinlater.cli.terminal import Terminal

    before: dict[str, QueueLook] = {}
    lines = ["looking ..."]
    with Terminal() as terminal:
        async with _client(session) as client:
            while not terminal.ended.is_set():
                terminal.show([*lines, "", "q ends"])
                started = time.monotonic()
                looking = asyncio.create_task(look_at_queues(client, queues))
                await _first(looking, terminal.ended)
                if looking.cancelled() or terminal.ended.is_set():
                    break
                try:
                    looks = looking.result()
                except PinLaterError as error:
                    lines = [f"{_clock()}  {visible(str(error))}; trying again", "", *lines[2:]]
                else:
                    lines = [f"{_clock()}  {len(looks)} queues", "", *table(looks, before)]
                    before = {look.queue: look for look in looks}
                terminal.show([*lines, "", "q ends"])
                await _rest_of(interval, started, terminal, lines)


async def _first(looking: asyncio.Task[Any], ended: asyncio.Event) -> None:
    """Wait for a look, no longer than the user wants to."""
    end = asyncio.create_task(ended.wait())
    await asyncio.wait([looking, end], return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if not looking.done():
        looking.cancel()
        await asyncio.wait([looking])
    if not looking.cancelled():
        looking.exception()  # whoever ends the program is not told of it


async def _rest_of(interval: float, started: float, terminal: Any, lines: list[str]) -> None:
    """Wait for the next look; show the same again when the window changes."""
    until = started + max(interval, (time.monotonic() - started) * (_REST + 1))
    while not terminal.ended.is_set() and (left := until - time.monotonic()) > 0:
        await terminal.rest(left)
        terminal.show([*lines, "", "q ends"])


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def table(looks: Sequence[QueueLook], before: Mapping[str, QueueLook]) -> list[str]:
    """Return the lines of a table of queues, the longest waits first."""
    ranked = sorted(looks, key=lambda look: (-(look.wait_seconds or 0.0), -look.due, look.queue))
    rows = [_row(look, before.get(look.queue)) for look in ranked]
    return aligned([_HEADERS, *rows], numbers=range(1, 8))


def _row(look: QueueLook, before: QueueLook | None) -> list[str]:
    ended = look.ended_since(before)
    return [
        look.queue,
        *(f"{number:,}" for number in (look.due, look.scheduled, look.running, look.failed, look.succeeded)),
        "-" if ended is None else f"{ended:,.1f}",
        "-" if look.wait_seconds is None else duration(look.wait_seconds),
        _state(look),
    ]


def _state(look: QueueLook) -> str:
    settings = look.settings
    if settings is None:
        return "-"
    parts = ["paused"] if settings.is_paused else []
    if settings.jobs_per_second is not None:
        parts.append(f"{settings.jobs_per_second:g}/s")
    if settings.max_running is not None:
        parts.append(f"{settings.max_running} at once")
    return ", ".join(parts) or "open"
