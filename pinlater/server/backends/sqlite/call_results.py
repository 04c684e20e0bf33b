"""Results of calls with an idempotency key: saved in the call's transaction, returned if it is sent again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from pinlater.server.backends.records import IdempotencyKey, Once
from pinlater.server.backends.sqlite.queries import QUERIES, insert_results
from pinlater.server.backends.sqlite.transaction import SqliteTransaction
from pinlater.server.backends.sqlite.verb import one_by_one

_ROWS_PER_STATEMENT = 100

Place = tuple[int, int]
"""Priority and id of a job."""


def save_new(transaction: SqliteTransaction, given: Sequence[tuple[IdempotencyKey, int]]) -> dict[bytes, int]:
    """Save numbers under their keys; if some keys already exist, which is rare, return the saved number by key.

    A key that is not in the result has the number given. This takes one statement per 100 keys, and a look-up of each
    key only if one of these already exists.
    """
    numbers: dict[bytes, int] = {}
    for start in range(0, len(given), _ROWS_PER_STATEMENT):
        chunk = given[start : start + _ROWS_PER_STATEMENT]
        parameters: list[object] = []
        for (value, keep_ms, _), number in chunk:
            parameters += (value, number, transaction.now + keep_ms)
        if transaction.run(insert_results(len(chunk)), parameters) < len(chunk):
            numbers |= {once.value: _saved_or_replaced(transaction, once, number) for once, number in chunk}
    return numbers


def _saved_or_replaced(transaction: SqliteTransaction, once: IdempotencyKey, number: int) -> int:
    """Return the number that is saved under a key; replace it by ``number`` if it has expired."""
    saved = find_number(transaction, once)
    if saved is not None:
        return saved
    save(transaction, once, number)
    return number


def find_number(transaction: SqliteTransaction, once: Once) -> int | None:
    """Return the saved number of a call; None if the call was not carried out."""
    rows = [] if once is None else transaction.rows(QUERIES["call_result"], (once.value, transaction.now))
    return rows[0][0] if rows else None


def find_places(transaction: SqliteTransaction, once: Once, priorities: Iterable[int]) -> list[Place] | None:
    """Return the places of the jobs that a call has stored; None if the call was not carried out.

    ``priorities`` are those of the jobs of the call, which is sent again.
    """
    rows = [] if once is None else transaction.rows(QUERIES["call_result"], (once.value, transaction.now))
    if not rows:
        return None
    number, text = rows[0]
    told = list(priorities)
    if text is None:
        return consecutive_places(number, told)
    places = [(priority, local_id) for priority, local_id in json.loads(text)]
    return places if len(places) == len(told) else None


def consecutive_places(first_id: int, priorities: Iterable[int]) -> list[Place]:
    """Return the places of jobs with consecutive ids."""
    return list(zip(priorities, count(first_id), strict=False))


def save(transaction: SqliteTransaction, once: Once, number: int, places: Sequence[Place] | None = None) -> None:
    """Save the result of a call, if it has a key."""
    if once is not None:
        text = None if places is None else json.dumps(places, separators=(",", ":"))
        transaction.run(QUERIES["keep_result"], (once.value, number, text, transaction.now + once.keep_ms))


class ExpiredResults(NamedTuple):
    """The results with keys from ``first`` to ``last`` that had expired at ``before_ms``."""

    first: bytes
    last: bytes
    before_ms: int


@one_by_one
def forget(transaction: SqliteTransaction, first: bytes, last: bytes, before_ms: int) -> int:
    """Delete ``ExpiredResults``; return how many."""
    return transaction.run(QUERIES["forget_results"], (first, last, before_ms))
