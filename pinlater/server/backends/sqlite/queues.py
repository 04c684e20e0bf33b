"""Queues: create and delete them, read and change their settings."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction


def create(transaction: SqliteTransaction, requests: Sequence[str]) -> list[int]:
    """Create the queues that do not exist; return the ids of all queues."""
    return [_create_one(transaction, name) for name in requests]


def _create_one(transaction: SqliteTransaction, name: str) -> int:
    transaction.run(QUERIES["create_queue"], (name, transaction.now))
    return int(transaction.rows(QUERIES["queue_id"], (name,))[0][0])


class ChangeRequest(NamedTuple):
    """A change of a queue's settings."""

    queue_id: int
    change: QueueChange


def change(transaction: SqliteTransaction, requests: Sequence[ChangeRequest]) -> list[None]:
    """Carry out each request."""
    for queue_id, wanted in requests:
        for row in transaction.rows(QUERIES["settings_of_queue"], (queue_id,)):
            kept = wanted.applied_to(QueueSettings(*row))
            limits = kept.is_paused, kept.jobs_per_second, kept.max_running
            transaction.run(QUERIES["change_queue_settings"], (queue_id, *limits, kept.shards, kept.shards_by_load))
    return [None for _ in requests]


def settings(connection: sqlite3.Connection) -> dict[str, QueueSettings]:
    """Return the settings of all queues."""
    rows = connection.execute(QUERIES["queue_settings"]).fetchall()
    return {name: QueueSettings(bool(is_paused), *others) for name, is_paused, *others in rows}


def drop(transaction: SqliteTransaction, requests: Sequence[str]) -> list[None]:
    """Remove the names of queues: no call finds these any more, and the monitor deletes their jobs step by step."""
    for name in requests:
        transaction.run(QUERIES["delete_queue"], (name,))
    return [None for _ in requests]
