"""``pinlater load``: keeps a server busy, and says how it did."""

from __future__ import annotations

from typing import Any

import click

from pinlater.cli.command import PRIORITY, Session, command
from pinlater.cli.completion import complete_queues


@command(
    "load",
    examples="""
    pinlater load enqueue stress --num-queries 10000 --batch-size 10 --concurrency 16
    pinlater load dequeue stress --num-queries -1 --batch-size 100 --dequeue-success-percent 90
    """,
)
@click.argument("mode", type=click.Choice(["enqueue", "dequeue"]))
@click.argument("queue", shell_complete=complete_queues)
@click.option("--num-queries", type=int, default=1, show_default=True, help="Queries in all; -1 goes on until ^C.")
@click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True, help="Jobs in a query.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Queries at the same time."
)
@click.option(
    "--dequeue-success-percent",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="Share of the dequeued jobs that are acknowledged as succeeded; the others failed.",
)
@click.option("--priority", type=PRIORITY, default=1, show_default=True, help="Priority of the jobs enqueued.")
@click.option("--body-size", type=click.IntRange(min=0), help="Bytes in a body.  [default: the text task_<number>]")
@click.pass_obj
def load(session: Session, /, *, num_queries: int, **options: Any) -> int:
    """Enqueue or dequeue as fast as the server answers.

    A query is one enqueue of a batch, or one dequeue with the ack of what came. Every second stderr gets the rate and
    the average time of a query; at the end stdout gets the totals.
    """
    if num_queries < -1 or num_queries == 0:
        raise click.UsageError("--num-queries must be at least 1, or -1 for no end.")
    from pinlater.cli import loading

    return loading.run(session, loading.Plan(num_queries=num_queries, **options))
