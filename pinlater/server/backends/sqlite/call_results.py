"""Results of calls with an idempotency key, saved in the transaction of the call, for when it is sent again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.server.backends.records import IdempotencyKey, Once
from pinlater.server.backends.sqlite.queries import QUERIES, insert_results
from pinlater.server.backends.sqlite.transaction import SqliteTransaction

_ROWS_PER_STATEMENT = 100

Place = tuple[int, int]
"""Priority and id of a job."""


def save_new(transaction: SqliteTransaction, given: Sequence[tuple[IdempotencyKey, int]]) -> dict[bytes, int]:
    """Save numbers under keys that are new, as nearly all are; of each other key, return the number that was saved.

    It costs one statement; only if some of the keys exist already are they looked up.
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
    """Return the number that is saved under a key; one that has expired is replaced."""
    saved = find_number(transaction, once)
    if saved is not None:
        return saved
    save(transaction, once, number)
    return number


def find_number(transaction: SqliteTransaction, once: Once) -> int | None:
    """Return the saved number of a call; None if it was not carried out."""
    rows = [] if once is None else transaction.rows(QUERIES["call_result"], (once.value, transaction.now))
    return rows[0][0] if rows else None


def find_places(transaction: SqliteTransaction, once: Once, count: int) -> list[Place] | None:
    """Return the places that a call has stored its ``count`` jobs at; None if it was not carried out."""
    rows = [] if once is None else transaction.rows(QUERIES["call_result"], (once.value, transaction.now))
    if not rows or rows[0][1] is None:
        return None
    places = [(priority, local_id) for priority, local_id in json.loads(rows[0][1])]
    return places if len(places) == count else None


def save(transaction: SqliteTransaction, once: Once, number: int, places: Sequence[Place] | None = None) -> None:
    """Save the result of a call; without a key, nothing."""
    if once is not None:
        text = None if places is None else json.dumps(places, separators=(",", ":"))
        transaction.run(QUERIES["keep_result"], (once.value, number, text, transaction.now + once.keep_ms))


class ExpiredResults(NamedTuple):
    """The results of calls with keys from ``first`` to ``last`` that had expired at ``before_ms``."""

    first: bytes
    last: bytes
    before_ms: int


def forget(transaction: SqliteTransaction, requests: Sequence[ExpiredResults]) -> list[int]:
    """Delete expired results; return how many of each request."""
    return [transaction.run(QUERIES["forget_results"], request) for request in requests]
