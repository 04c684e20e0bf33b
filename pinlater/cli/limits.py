"""``pinlater pause``, ``resume`` and ``limit``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.done_notes import noting_done
from pinlater.cli.output import print_json
from pinlater.cli.tables import Table
from pinlater.durations import NumberRange
from pinlater.errors import QueueNotFound
from pinlater.model.queues import QueueSettings
from pinlater.model.rates import parse_rate
from pinlater.model.shard_count import describe_shard_count, parse_shard_count


class _JobsPerSecond(NumberRange):
    """Jobs per second: a number, or a rate such as ``10/m``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not (isinstance(value, str) and "/" in value):
            return super().convert(value, param, ctx)
        try:
            jobs, seconds = parse_rate(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return jobs / seconds


def _read_shards(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_shard_count(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


@command(
    "pause",
    common=WITH_TABLE,
    examples="""
    pinlater pause email
    pinlater pause email reports --json
    """,
)
@click.argument("queues", nargs=-1, required=True, shell_complete=complete_queues)
def pause(session: Session, /, *, queues: tuple[str, ...]) -> None:
    """Pause queues: hand out no more jobs.

    Running jobs continue, and jobs can still be enqueued. All servers of the store apply the change within a second. It
    lasts until "pinlater resume", even across restarts. Prints the limits of the queues.
    """
    _change(session, queues, "paused", paused=True)


@command(
    "resume",
    common=WITH_TABLE,
    examples="""
    pinlater resume email
    pinlater resume email reports
    """,
)
@click.argument("queues", nargs=-1, required=True, shell_complete=complete_queues)
def resume(session: Session, /, *, queues: tuple[str, ...]) -> None:
    """Resume paused queues.

    The limits of the queues do not change. A queue that the server's file of rate limits pauses stays paused; the last
    column of the output shows that. Prints the limits of the queues.
    """
    _change(session, queues, "resumed", paused=False)


@command(
    "limit",
    common=WITH_TABLE,
    examples="""
    pinlater limit
    pinlater limit email --rate 50 --running 10
    pinlater limit email --rate 10/m
    pinlater limit email --rate 0
    pinlater limit email --shards auto
    """,
)
@click.argument("queue", required=False, shell_complete=complete_queues)
@click.option(
    "--rate",
    type=_JobsPerSecond(min=0),
    metavar="JOBS",
    help="Maximum number of jobs per second, for all servers together, or a rate such as 10/m; 0 for no limit.",
)
@click.option(
    "--running", type=click.IntRange(min=0), metavar="JOBS", help="Maximum number of running jobs; 0 for no limit."
)
@click.option(
    "--shards",
    callback=_read_shards,
    metavar="N|auto|all",
    help="How many shards new jobs without a key go to; auto for as many as the load of the queue needs.",
)
def limit(
    session: Session, /, *, queue: str | None, rate: float | None, running: int | None, shards: int | None
) -> None:
    """Set or show the limits of queues.

    Limits apply to all servers and workers together, and last until they are changed. Without options, it shows the
    limits of a queue, or of all queues. If you lower --shards, jobs that are on the other shards run there.

    The rate of a queue that the server's file of rate limits names is that of the file; the last column shows that.
    """
    is_change = any(option is not None for option in (rate, running, shards))
    if queue is None and is_change:
        raise click.UsageError("Missing argument 'QUEUE': name the queue to limit.")
    if is_change:
        _change(session, [str(queue)], "limited", jobs_per_second=rate, max_running=running, shards=shards)
        if 0 in (rate, running):
            click.echo(f"pinlater: 0 is no limit; to hand out no more jobs: pinlater pause {queue}", err=True)
        return
    with session.client() as client:
        settings = client.queue_settings()
    if queue is not None and queue not in settings:
        raise QueueNotFound(f"there is no queue {queue!r}")
    _print(session, settings if queue is None else {queue: settings[queue]})


def _change(session: Session, queues: Sequence[str], past: str, **change: Any) -> None:
    with session.client() as client, noting_done(past) as done:
        for queue in dict.fromkeys(queues):
            client.change_queue(queue, **change)
            done.append(queue)
        settings = client.queue_settings()
        _print(session, {queue: settings[queue] for queue in queues if queue in settings})
        if change.get("paused") is not None or change.get("jobs_per_second") is not None:
            _note_file([queue for queue in done if queue in settings and settings[queue].is_from_file])


def _note_file(queues: Sequence[str]) -> None:
    if queues:
        click.echo(
            "pinlater: the server's file of rate limits (QUEUE_CONFIG_FILE_PATH) decides on the rate and the pause of "
            f"{', '.join(queues)}; the change has no effect while it names them",
            err=True,
        )


def _print(session: Session, settings: dict[str, QueueSettings]) -> None:
    if session.as_json:
        print_json(dict(sorted(settings.items())))
        return
    rows = [[queue, *_row(one)] for queue, one in sorted(settings.items())]
    header = ["QUEUE", "STATE", "JOBS/S", "AT ONCE", "SHARDS", "SET BY"]
    Table(header, numbers=[2, 3], width=session.table_width).print(rows)


def _row(one: QueueSettings) -> list[str]:
    rate = "-" if one.jobs_per_second is None else f"{one.jobs_per_second:g}"
    most = "-" if one.max_running is None else str(one.max_running)
    source = "server's file" if one.is_from_file else "store"
    return ["paused" if one.is_paused else "open", rate, most, describe_shard_count(one), source]
