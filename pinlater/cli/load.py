"""``pinlater load``: load generator."""

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
@click.option(
    "--num-queries", type=int, default=1, show_default=True, help="Total number of queries; -1 runs until ^C."
)
@click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True, help="Jobs per query.")
@click.option("--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Concurrent queries.")
@click.option(
    "--dequeue-success-percent",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="Percentage of dequeued jobs acknowledged as succeeded; the others are acknowledged as failed.",
)
@click.option("--priority", type=PRIORITY, default=1, show_default=True, help="Priority of the enqueued jobs.")
@click.option(
    "--body-size", type=click.IntRange(min=0), help="Size of a body in bytes.  [default: the text task_<number>]"
)
def load(session: Session, /, *, num_queries: int, **given: Any) -> int:
    """Enqueue or dequeue as fast as the server answers.

    A query is the enqueue of a batch, or a dequeue with the acknowledgement of its jobs. Every second, the rate and the
    mean latency of queries go to stderr; at the end, the totals go to stdout.
    """
    if num_queries < -1 or num_queries == 0:
        raise click.UsageError("--num-queries must be at least 1, or -1 to run until ^C.")
    from pinlater.cli import loading

    return loading.run(session, loading.LoadOptions(num_queries=num_queries, **given))
