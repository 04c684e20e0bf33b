"""Measures an outbox: time from a commit to a worker's claim, speed of many rows, cost of an idle relay.

    python -m benchmarks.outbox
    python -m benchmarks.outbox postgresql://me@localhost/test
    python -m benchmarks.outbox mysql://me:secret@localhost/test

Without a URL, the database is an SQLite file. The table ``pinlater_outbox`` is created first, and dropped at the end.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from benchmarks.__main__ import durable_folder
from benchmarks.figures import Figure, percentile
from benchmarks.machine import describe_machine
from benchmarks.programs import OutboxRelay, Server
from pinlater import Client, Job, JobContext
from pinlater.outbox import Outbox
from pinlater.outbox.connecting import connector

_LATENCIES, _ROWS = 2000, 50_000
_IDLE_SECONDS = 20.0
_LONGEST_GAP_SECONDS = 0.03


class Numbered(Job, queue="numbered"):
    """A job with a number, by which its times are found."""

    n: int

    def run(self, context: JobContext) -> None:
        """Do nothing."""


@click.command()
@click.argument("url", required=False)
@click.option("--scale", type=click.FloatRange(0.001, 1.0), default=1.0, show_default=True, help="Share of the work.")
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where the stores go.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(url: str | None, scale: float, folder: Path | None, as_json: bool) -> None:
    """Measure an outbox in the database at URL; without URL, in an SQLite file."""
    with tempfile.TemporaryDirectory(dir=folder or durable_folder()) as name:
        home = Path(name)
        url = url or _sqlite(home / "shop.db")
        (home / "server").mkdir()
        with Server(home / "server", []) as server, _table(url):
            client = Client([str(server.address)], timeout=30)
            client.create_queue("numbered")
            with OutboxRelay(url, server.address, home / "relay.log") as relay:
                figures = [
                    *_latencies(url, client, max(int(_LATENCIES * scale), 20)),
                    _idle(relay, max(_IDLE_SECONDS * scale, 1.0)),
                    _rate(url, max(int(_ROWS * scale), 500)),
                ]
    if as_json:
        print(json.dumps({"machine": describe_machine(), "figures": [figure.as_dict() for figure in figures]}))
    else:
        for figure in figures:
            print(f"{figure.title:<50} {figure.value:>10,.2f} {figure.unit}")


def _sqlite(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
    return f"sqlite:///{path}"


@contextmanager
def _table(url: str) -> Iterator[None]:
    statements = Outbox().table_statements(urlsplit(url).scheme.partition("+")[0])
    with closing(connector(url)()) as connection:
        _execute(connection, *statements)
        yield
        _execute(connection, "DROP TABLE pinlater_outbox")


def _execute(connection: Any, *statements: str) -> None:
    for statement in statements:
        connection.cursor().execute(statement)
    connection.commit()


def _latencies(url: str, client: Client, number: int) -> list[Figure]:
    """Enqueue jobs at random moments, in turns through the outbox and by a call; record when a consumer has each."""
    outbox, began, costs = Outbox(), {}, []
    with closing(connector(url)()) as connection, _consumer(client, 2 * number + 1) as arrived:
        outbox.enqueue(connection, Numbered(n=-1))
        connection.commit()
        while -1 not in arrived:  # the relay has yet to start
            time.sleep(0.01)
        for n in range(number):
            time.sleep(random.random() * _LONGEST_GAP_SECONDS)
            start = time.perf_counter()
            outbox.enqueue(connection, Numbered(n=n))
            costs.append((time.perf_counter() - start) * 1000)
            connection.commit()
            began[n] = time.perf_counter()
            time.sleep(random.random() * _LONGEST_GAP_SECONDS)
            began[number + n] = time.perf_counter()
            client.enqueue(Numbered(n=number + n))
    through = [(arrived[n] - began[n]) * 1000 for n in range(number)]
    direct = [(arrived[number + n] - began[number + n]) * 1000 for n in range(number)]
    return [
        Figure("enqueue", "enqueue into the transaction, median", "ms", [percentile(costs, 50)]),
        Figure("commit_to_worker_p50", "commit to job in a worker's hands, median", "ms", [percentile(through, 50)]),
        Figure("commit_to_worker_p99", "commit to job in a worker's hands, 99 of 100", "ms", [percentile(through, 99)]),
        Figure(
            "call_to_worker_p50", "Client.enqueue to job in a worker's hands, median", "ms", [percentile(direct, 50)]
        ),
        Figure("call_to_worker_p99", "Client.enqueue to that, 99 of 100", "ms", [percentile(direct, 99)]),
    ]


@contextmanager
def _consumer(client: Client, number: int) -> Iterator[dict[int, float]]:
    """Record when each job arrives at a parked consumer; at the end, wait until all have."""
    arrived: dict[int, float] = {}
    consumer = threading.Thread(target=_consume, args=(client, arrived, number))
    consumer.start()
    yield arrived
    consumer.join()


def _consume(client: Client, arrived: dict[int, float], number: int) -> None:
    while len(arrived) < number:
        for job in client.dequeue_jobs("numbered", 100, wait=1.0):
            arrived[json.loads(job.body)["n"]] = time.perf_counter()


def _idle(relay: OutboxRelay, seconds: float) -> Figure:
    before = relay.cpu_seconds()
    time.sleep(seconds)
    return Figure("idle", "idle relay", "% of a core", [(relay.cpu_seconds() - before) / seconds * 100])


def _rate(url: str, number: int) -> Figure:
    with closing(connector(url)()) as connection:
        Outbox().enqueue_many(connection, (Numbered(n=n) for n in range(number)))
        connection.commit()
        began = time.perf_counter()
        while _waiting(connection):
            time.sleep(0.01)
        return Figure("rate", "many rows", "jobs/s", [number / (time.perf_counter() - began)])


def _waiting(connection: Any) -> bool:
    cursor = connection.cursor()
    cursor.execute("SELECT 1 FROM pinlater_outbox LIMIT 1")
    found = cursor.fetchone() is not None
    connection.commit()
    return found


if __name__ == "__main__":
    sys.exit(main())
