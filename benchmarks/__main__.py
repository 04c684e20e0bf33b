"""Runs the benchmarks and prints a table."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks import (
    bulk_enqueue,
    dashboard,
    depth,
    fleet_drain,
    half_load,
    hand_out,
    idle_fleet,
    joined,
    key_flood,
    keys,
    latency,
    many_shards,
    one_call,
    outages,
    parked,
    queue_shards,
    recovery,
    servers,
    single_dequeue,
    single_enqueue,
    steps,
    vain,
    worker_drain,
)
from benchmarks.figures import Figure, cell_tables, table
from benchmarks.machine import describe_machine, raise_open_files
from benchmarks.programs import ProgramFailed
from benchmarks.setting import Setting
from benchmarks.stores import KINDS, make_stores
from benchmarks.viewers import PageFailed
from benchmarks.waiting import FilledStore
from pinlater.errors import PinLaterError

BENCHMARKS: dict[str, Callable[[Setting], list[Figure]]] = {
    "bulk_enqueue": bulk_enqueue.measure,
    "single_enqueue": single_enqueue.measure,
    "single_dequeue": single_dequeue.measure,
    "half_load": half_load.measure,
    "hand_out": hand_out.measure,
    "one_call": one_call.measure,
    "worker_drain": worker_drain.measure,
    "latency": latency.measure,
    "depth": depth.measure,
    "parked": parked.measure,
    "recovery": recovery.measure,
    "servers": servers.measure,
    "keys": keys.measure,
    "key_flood": key_flood.measure,
    "joined": joined.measure,
    "steps": steps.measure,
    "idle_fleet": idle_fleet.measure,
    "many_shards": many_shards.measure,
    "queue_shards": queue_shards.measure,
    "fleet_drain": fleet_drain.measure,
    "vain": vain.measure,
    "dashboard": dashboard.measure,
    "outages": outages.measure,
}


class _How(NamedTuple):
    """How a benchmark is run; see the options."""

    scale: float
    rounds: int
    store: str
    folder: Path
    filled: FilledStore | None = None


def _list_of_names() -> str:
    """Return the names of all benchmarks, each with the first line of its module's docstring."""
    lines = (((sys.modules[measure.__module__].__doc__ or "").split("\n")[0]) for measure in BENCHMARKS.values())
    rows = [f"  {name:<{max(map(len, BENCHMARKS))}}  {line}" for name, line in zip(BENCHMARKS, lines, strict=True)]
    return "\n".join(["\b", "Names:", *rows])


@click.command(epilog=_list_of_names())
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)), metavar="[NAME]...")
@click.option("--scale", type=click.FloatRange(0.001, 1.0), default=1.0, show_default=True, help="Share of the work.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="How often each is measured.")
@click.option("--store", type=click.Choice(list(KINDS)), default="sqlite", show_default=True, help="Kind of store.")
@click.option("--waiting", type=click.IntRange(0), default=0, help="Beside so many jobs that wait for events.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where the stores go.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, every round included.")
def main(  # noqa: PLR0917 - click calls it
    names: tuple[str, ...], scale: float, rounds: int, store: str, waiting: int, folder: Path | None, as_json: bool
) -> None:
    """Measure PinLater beside a bare loop of the store's driver.

    Without NAMES, all are measured. Those of fleets, many shards and outages need a store with servers. With --waiting,
    each is measured twice; the second column is without those jobs.
    """
    raise_open_files()
    figures: list[Figure] = []
    failures = 0
    how = _How(scale, rounds, store, folder or durable_folder())
    with tempfile.TemporaryDirectory(prefix="pinlater-bench-", dir=how.folder) as home:
        filled = FilledStore(Path(home) / "filled", waiting)
        for name in names or BENCHMARKS:
            try:
                figures += _beside(name, how, filled) if waiting else _run(name, how)
            except (ProgramFailed, PageFailed, PinLaterError) as error:
                failures += 1
                click.echo(f"{name} failed: {error}", err=True)
    machine = describe_machine()
    if as_json:
        click.echo(
            json.dumps(
                {"machine": machine, "store": store, "scale": scale, "figures": [f.as_dict() for f in figures]},
                indent=2,
            )
        )
    elif figures:
        rows, cells = ([one for one in figures if (one.cell is not None) == is_cell] for is_cell in (False, True))
        other = "without" if waiting else f"bare {make_stores(store).driver}"
        parts = [table(rows, other)] * bool(rows) + [cell_tables(cells)] * bool(cells)
        click.echo("\n\n".join([f"\n{machine}; scale {scale:g}", *parts]))
    sys.exit(1 if failures else 0)


def _beside(name: str, how: _How, filled: FilledStore) -> list[Figure]:
    """Measure in turns with and without jobs that wait for events; return the former beside the latter."""
    found: dict[str, Figure] = {}
    beside, without = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for _ in range(how.rounds):
        for numbers, what in ((without, None), (beside, filled)):
            for figure in _run(name, how._replace(rounds=1, filled=what)):
                found[figure.name] = figure
                numbers[figure.name] += figure.ours
    return [replace(figure, ours=beside[name], bare=without[name]) for name, figure in found.items()]


def _run(name: str, how: _How) -> list[Figure]:
    click.echo(f"{name} ... ", nl=False, err=True)
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="pinlater-bench-", dir=how.folder) as home,
        closing(make_stores(how.store)) as stores,
    ):
        figures = BENCHMARKS[name](Setting(Path(home), how.scale, stores, how.rounds, how.filled))
    click.echo(f"{time.monotonic() - started:.0f} s", err=True)
    return figures


def durable_folder() -> Path:
    """Return a folder on a disk: /tmp is often memory, where a sync costs nothing."""
    durable = Path("/var/tmp")
    return durable if durable.is_dir() else Path(tempfile.gettempdir())


if __name__ == "__main__":
    main()
