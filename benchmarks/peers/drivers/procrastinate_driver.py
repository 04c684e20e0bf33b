"""procrastinate on PostgreSQL."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from itertools import islice

import procrastinate
import psycopg
from note import note

_BATCH_SIZE = 500

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEERS_URL"]))


@app.task
def note_start(number: int) -> None:
    note(number)


@functools.cache
def _producer() -> procrastinate.App:
    """Return the application with a blocking connector; make the tables if they are missing."""
    connector = procrastinate.SyncPsycopgConnector(conninfo=os.environ["PEERS_URL"])
    producer = app.with_connector(connector)
    producer.open()
    with psycopg.connect(os.environ["PEERS_URL"]) as connection:
        [is_there] = connection.execute("SELECT to_regclass('procrastinate_jobs') IS NOT NULL").fetchone() or [False]
    if not is_there:
        producer.schema_manager.apply_schema()
    return producer


def enqueue(number: int) -> None:
    _producer().configure_task("procrastinate_driver.note_start").defer(number=number)


def enqueue_many(numbers: Iterable[int]) -> None:
    task = _producer().configure_task("procrastinate_driver.note_start")
    left = iter(numbers)
    while batch := [{"number": number} for number in islice(left, _BATCH_SIZE)]:
        task.batch_defer(*batch)
