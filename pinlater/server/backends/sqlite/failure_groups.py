"""Failure groups: stored in the transaction of the failure, counted by the index of their jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from pinlater.model.failure_groups import OTHER_ERRORS, FailureGroup, JobFailure
from pinlater.server.backends.failure_budget import (
    MOST_READ,
    NOTED_EVERY_MS,
    CountBudget,
    begun,
    is_forgotten,
    largest,
    next_look_ms,
)
from pinlater.server.backends.search import Queue
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_KEPT = QUERIES["kept_failure_groups"]
_NOTE = QUERIES["note_failure"]
_COUNT_JOBS = QUERIES["count_failed_so"]

_GROUPS_AT_ONCE = 50
"""Groups whose jobs one statement counts, without waiting for the interpreter lock in between."""


def note(transaction: SqliteTransaction, queue_id: int, failures: Sequence[JobFailure]) -> set[int]:
    """Record failures of a queue in their groups, as far as there is room for these.

    Return the ids of those groups that are kept, and that of ``OTHER_ERRORS`` if it is.
    """
    if not failures:
        return set()
    by_group = {failure.group: failure for failure in failures}
    now = transaction.now
    known: dict[int, int] = dict(transaction.rows(_KEPT, (queue_id, id_list([*by_group, OTHER_ERRORS.group]))))
    if by_group.keys() - known.keys():
        [(kept,)] = transaction.rows(QUERIES["count_failure_groups"], (queue_id,))
        for group, *told in begun(by_group.values(), known, kept):
            transaction.run(QUERIES["keep_failure_group"], (queue_id, now, group, *told, next_look_ms(now)))
            known[group] = now
    failed = {group if group in known else OTHER_ERRORS.group for group in by_group}
    late = [(queue_id, now, group) for group in failed if known[group] <= now - NOTED_EVERY_MS]
    if late:
        transaction.run_many(_NOTE, late)
    return set(known)


def read(connection: sqlite3.Connection, queues: Mapping[int, Queue], limit: int) -> list[FailureGroup]:
    """Return the largest failure groups of these queues, which are given by id."""
    rows = connection.execute(QUERIES["failure_groups"], (id_list(queues), MOST_READ)).fetchall()
    budget = CountBudget()
    found: list[FailureGroup] = []
    for start in range(0, len(rows), _GROUPS_AT_ONCE):
        some = rows[start : start + _GROUPS_AT_ONCE]
        places = json.dumps([row[:2] for row in some])
        [counts] = connection.execute(_COUNT_JOBS, (places, budget.cap)).fetchone()
        for place, given_up, retrying in json.loads(counts):
            budget.spend(given_up + retrying)
            queue_id, *told = some[place]
            found.append(FailureGroup._make((queues[queue_id].name, *told, given_up, retrying)))
    return largest(found, limit)


def forget(transaction: SqliteTransaction, limit: int) -> int:
    """Check up to ``limit`` groups, and delete those that have been empty for long; return how many were deleted."""
    now, deleted = transaction.now, 0
    for queue_id, group, last_ms, is_empty, kept in transaction.rows(
        QUERIES["failure_groups_to_look_at"], (now, limit)
    ):
        if is_empty and is_forgotten(now - last_ms, kept):
            deleted += transaction.run(QUERIES["forget_failure_group"], (queue_id, group))
        else:
            transaction.run(QUERIES["look_at_failure_group"], (queue_id, group, next_look_ms(now)))
    return deleted
