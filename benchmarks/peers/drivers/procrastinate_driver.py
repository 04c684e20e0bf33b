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
def _open() -> None:
    """Connect the application; create the tables if they are missing."""
    app.open()
    with psycopg.connect(os.environ["PEERS_URL"]) as connection:
        row = connection.execute("SELECT to_regclass('procrastinate_jobs') IS NULL").fetchone()
    if row and row[0]:
        app.schema_manager.apply_schema()


def enqueue(number: int) -> None:
    _open()
    note_start.defer(number=number)


def enqueue_many(numbers: Iterable[int]) -> None:
    _open()
    left = iter(numbers)
    while batch := [{"number": number} for number in islice(left, _BATCH_SIZE)]:
        note_start.batch_defer(*batch)
