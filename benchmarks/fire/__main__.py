"""Injects faults into fleets, and reports what broke."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import click

from benchmarks.__main__ import durable_folder
from benchmarks.fire.faults import FAULTS
from benchmarks.fire.queues import QUEUE_SETS
from benchmarks.fire.trial import Outcome, Plan, carry_out
from benchmarks.machine import raise_open_files
from benchmarks.programs import ProgramFailed

_SHOWN = 10


@click.command()
@click.option(
    "--store", type=click.Choice(["mysql", "redis", "sqlite"]), default="redis", show_default=True, help="Its kind."
)
@click.option("--seed", "seeds", type=int, multiple=True, help="Of all that is left to chance; may be repeated.  [1]")
@click.option(
    "--queues", type=click.Choice(list(QUEUE_SETS)), default="mixed", show_default=True, help="With which rules."
)
@click.option("--jobs", type=click.IntRange(0), default=0, help="How many are enqueued, however long it takes.")
@click.option("--seconds", type=click.FloatRange(1), default=60.0, show_default=True, help="How long faults happen.")
@click.option(
    "--fault", "faults", type=click.Choice(list(FAULTS)), multiple=True, help="Only these; may be repeated.  [all]"
)
@click.option("--servers", type=click.IntRange(2), default=3, show_default=True, help="How many; one with SQLite.")
@click.option("--shards", type=click.IntRange(1), default=2, show_default=True, help="How many; one with SQLite.")
@click.option("--pace", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Rate of new jobs.")
@click.option("--pause", type=click.FloatRange(0.5), default=3.0, show_default=True, help="Longest, between faults.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where the stores go.")
@click.option("--keep", is_flag=True, help="Leave the logs, the journals and the stores there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a seed.")
def main(  # noqa: PLR0917 - click calls it
    store: str,
    seeds: tuple[int, ...],
    queues: str,
    jobs: int,
    seconds: float,
    faults: tuple[str, ...],
    servers: int,
    shards: int,
    pace: float,
    pause: float,
    folder: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Check which guarantees hold under faults.

    Several servers share a store of several shards. Producers, plain consumers and workers use eight queues: without
    keys, first in first out, in order by key, with a limit by key, with a rate. With --queues keys, all jobs have keys,
    there are more of them, and some are cancelled, deleted, rescheduled, given up and retried by hand.

    Meanwhile servers are killed, frozen for longer than the leases, cut off from the store, added and removed; workers
    are killed, frozen and replaced; the store is killed and frozen. All that clients see is written to journals, and
    checked at the end: no job lost, done twice or held by two, no order broken, no limit exceeded, no attempt spent on
    a job that was never delivered. Exits with 1 if any of that happened.
    """
    raise_open_files()
    is_broken = False
    for seed in seeds or (1,):
        plan = Plan(store, seed, seconds, faults or tuple(FAULTS), servers, shards, pace, pause, queues, jobs)
        home = tempfile.mkdtemp(prefix="pinlater-fire-", dir=folder or durable_folder())
        try:
            outcome = carry_out(plan, Path(home))
        except ProgramFailed as error:
            click.echo(f"seed {seed} on {store} failed: {error}", err=True)
            is_broken = True
        else:
            is_broken |= bool(outcome.violations)
            click.echo(_as_json(plan, outcome) if as_json else _as_text(plan, outcome, home if keep else ""))
        finally:
            if not keep:
                shutil.rmtree(home)
    sys.exit(1 if is_broken else 0)


def _as_json(plan: Plan, outcome: Outcome) -> str:
    broken = [violation._asdict() for violation in outcome.violations]
    return json.dumps({"store": plan.store, "seed": plan.seed, "figures": outcome.figures, "violations": broken})


def _as_text(plan: Plan, outcome: Outcome, kept: str) -> str:
    lines = [f"{plan.store}, seed {plan.seed}{f', in {kept}' if kept else ''}:"]
    lines += [f"  {name:<42} {figure}" for name, figure in outcome.figures.items()]
    lines += [f"  BROKEN, {violation.kind}: {violation.text}" for violation in outcome.violations[:_SHOWN]]
    if len(outcome.violations) > _SHOWN:
        lines.append(f"  and {len(outcome.violations) - _SHOWN} more")
    return "\n".join(lines if outcome.violations else [*lines, "  nothing was broken"])


if __name__ == "__main__":
    main()
