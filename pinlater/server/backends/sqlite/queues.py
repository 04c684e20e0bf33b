"""Queues: create and delete them, read and change their settings."""

from __future__ import annotations

import sqlite3

from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction
from pinlater.server.backends.sqlite.verb import one_by_one


@one_by_one
def create(transaction: SqliteTransaction, name: str) -> int:
    """Create a queue, unless it exists; return its id."""
    transaction.run(QUERIES["create_queue"], (name, transaction.now))
    return int(transaction.rows(QUERIES["queue_id"], (name,))[0][0])


@one_by_one
def change(transaction: SqliteTransaction, queue_id: int, wanted: QueueChange) -> None:
    """Change the settings of a queue."""
    for row in transaction.rows(QUERIES["settings_of_queue"], (queue_id,)):
        kept = wanted.applied_to(QueueSettings(*row))
        limits = kept.is_paused, kept.jobs_per_second, kept.max_running
        transaction.run(QUERIES["change_queue_settings"], (queue_id, *limits, kept.shards, kept.shards_by_load))


def settings(connection: sqlite3.Connection) -> dict[str, QueueSettings]:
    """Return the settings of all queues."""
    rows = connection.execute(QUERIES["queue_settings"]).fetchall()
    return {name: QueueSettings(bool(is_paused), *others) for name, is_paused, *others in rows}


@one_by_one
def drop(transaction: SqliteTransaction, name: str) -> None:
    """Remove the name of a queue: no call finds it any more, and the monitor deletes its jobs step by step."""
    transaction.run(QUERIES["delete_queue"], (name,))
