"""Measures the league and prints its table."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.__main__ import durable_folder
from benchmarks.machine import describe_machine
from benchmarks.peers import report
from benchmarks.peers.contestants import CONTESTANTS
from benchmarks.peers.environment import default_folder, python_of
from benchmarks.peers.league import Amounts, Round, measure
from benchmarks.peers.services import NotInstalled
from benchmarks.programs import ProgramFailed


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(CONTESTANTS)), metavar="[NAME]...")
@click.option("--scale", type=click.FloatRange(0.001, 10.0), default=1.0, show_default=True, help="Share of the work.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="How often each is measured.")
@click.option("--venv", type=click.Path(path_type=Path), help="Virtual environment of the others; made when missing.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where the stores go.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, every round included.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Markdown page to write the table into.")
@click.option("--svg", type=click.Path(path_type=Path), help="File to draw the rates into.")
def main(  # noqa: PLR0917 - click calls it
    names: tuple[str, ...],
    scale: float,
    rounds: int,
    venv: Path | None,
    folder: Path | None,
    as_json: bool,
    page: Path | None,
    svg: Path | None,
) -> None:
    """Measure PinLater and other job queues, each on its own server, in turns.

    NAMES are contestants, such as pinlater-sqlite, beanstalkd-sync or celery-reliable; without NAMES, all.
    """
    chosen = list(names or CONTESTANTS)
    others = [name for name in chosen if not CONTESTANTS[name].is_ours]
    python = python_of(venv or default_folder()) if others else Path(sys.executable)
    found: dict[str, list[Round]] = {}
    failed: set[str] = set()
    for number in range(1, rounds + 1):
        for name in chosen:
            if name not in failed:
                _measure(name, f"round {number}", python, folder or durable_folder(), scale, found, failed)
    machine = f"{datetime.now(UTC):%Y-%m-%d}; {describe_machine()}; medians of {rounds} rounds; scale {scale:g}"
    rows = report.rows_of(found)
    if as_json:
        figures = {name: [one._asdict() for one in rounds_] for name, rounds_ in found.items()}
        click.echo(json.dumps({"machine": machine, "contestants": figures}, indent=2))
    else:
        click.echo(f"\n{machine}\n\n{report.as_text(rows)}")
    if page is not None:
        report.write_into(page, report.as_markdown(rows, machine))
    if svg is not None:
        svg.write_text(report.as_svg(found))
    sys.exit(1 if failed else 0)


def _measure(  # noqa: PLR0917 - it is a part of ``main``
    name: str, title: str, python: Path, folder: Path, scale: float, found: dict[str, list[Round]], failed: set[str]
) -> None:
    click.echo(f"{title}: {name} ... ", nl=False, err=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pinlater-peers-", dir=folder) as home:
        Path(home).chmod(0o755)  # PostgreSQL runs as another user
        store = Path(home, "store")
        store.mkdir()
        try:
            amounts = Amounts.scaled(scale, CONTESTANTS[name].share)
            found.setdefault(name, []).append(measure(CONTESTANTS[name], python, store, amounts))
        except (NotInstalled, ProgramFailed) as error:
            failed.add(name)
            found.pop(name, None)
            click.echo(f"left out: {error}", err=True)
        else:
            click.echo(f"{time.monotonic() - began:.0f} s", err=True)


if __name__ == "__main__":
    main()
