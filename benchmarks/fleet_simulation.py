"""Sizes a fleet: simulates servers, shards and workers, for each way that servers may find due jobs.

Nothing is started and nothing is measured. ``docs/guides/capacity.md`` says how to read the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

import click

from benchmarks.figures import aligned
from benchmarks.fleet.load import Load
from benchmarks.fleet.simulation import MODELS, Outcome, simulate

HEADINGS = ("model", "statements/job", "in vain %", "statements/s", "busy %", "p50 ms", "p99 ms")
CORES = ("shards", "servers", "workers")
MOST_JOBS_A_DAY = 5_000_000_000
_DEFAULT = Load()


@click.command()
@click.option("--queues", type=click.IntRange(1), default=_DEFAULT.queues, show_default=True, help="Most nearly idle.")
@click.option(
    "--jobs-a-day",
    type=click.IntRange(0, MOST_JOBS_A_DAY),
    default=_DEFAULT.jobs_a_day,
    show_default=True,
    help="Of all queues together.",
)
@click.option("--shards", type=click.IntRange(1), default=_DEFAULT.shards, show_default=True, help="Databases.")
@click.option(
    "--servers", type=click.IntRange(1), default=_DEFAULT.servers, show_default=True, help="Server processes."
)
@click.option("--workers", type=click.IntRange(1), default=_DEFAULT.workers, show_default=True, help="Job processes.")
@click.option("--seed", type=int, default=_DEFAULT.seed, show_default=True, help="The same seed, the same result.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(  # noqa: PLR0917 - click calls it
    queues: int, jobs_a_day: int, shards: int, servers: int, workers: int, seed: int, as_json: bool
) -> None:
    """Simulate a fleet on MySQL shards, for each way in which servers may find due jobs.

    Columns: statements of all kinds for each job; dequeues that asked a shard and found nothing; statements a second
    of a shard, and how busy the processor of the busiest one is; wait from the answer to an enqueue until a worker has
    the job; processors that are kept busy, without room to spare and without what the jobs themselves do.
    """
    load = Load(queues, jobs_a_day, shards, servers, workers, seed)
    outcomes = {model: simulate(load, model) for model in MODELS}
    if as_json:
        models = {model: outcome.as_dict() for model, outcome in outcomes.items()}
        click.echo(json.dumps({"load": asdict(load), "models": models}, indent=2))
    else:
        click.echo(f"{_describe(load)}\n\n{_table(outcomes)}")


def _describe(load: Load) -> str:
    return (
        f"{load.queues:,} queues, {load.jobs_a_day:,} jobs a day ({load.jobs_a_second:,.0f} a second; the busiest "
        f"queue has {max(load.shares()):.0%}), {load.shards} shards, {load.servers} servers, {load.workers:,} workers; "
        f"{load.seconds:.1f} simulated seconds, seed {load.seed}"
    )


def _table(outcomes: Mapping[str, Outcome]) -> str:
    headings = (*HEADINGS, *(f"cores: {name}" for name in CORES))
    return aligned([headings, *(_row(model, outcome) for model, outcome in outcomes.items())], texts=1)


def _row(model: str, outcome: Outcome) -> tuple[str, ...]:
    statements, waits = outcome.statements_a_job, (outcome.wait_ms.get(percent) for percent in (50, 99))
    return (
        model,
        "" if statements is None else f"{statements:.1f}",
        f"{outcome.found_nothing:.1%}".removesuffix("%"),
        f"{outcome.statements_a_second:,.1f}",
        f"{outcome.busiest_shard:.1%}".removesuffix("%"),
        *("" if wait is None else f"{wait:,.1f}" for wait in waits),
        *(f"{getattr(outcome.cores, name):.2f}" for name in CORES),
    )


if __name__ == "__main__":
    main()
