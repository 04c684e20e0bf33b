"""What calls have answered, kept in the transaction of what they did: the same call, sent again, finds it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sqlite.queries import QUERIES, insert_results
from pinlater.server.backends.sqlite.transaction import SqliteTransaction

_ROWS_PER_STATEMENT = 100

Place = tuple[int, int]
"""Priority and id of a job."""


class NewResult(NamedTuple):
    """What a call is to be remembered by that was not carried out yet."""

    once: IdempotencyKey
    number: int


def keep_new(transaction: SqliteTransaction, given: Sequence[NewResult]) -> dict[bytes, int]:
    """Keep numbers under keys that are new, which nearly all are; of each other key, return the number that counts.

    It costs one statement, whatever becomes of it: the look-ups are left to those that are found to be known.
    """
    numbers: dict[bytes, int] = {}
    for start in range(0, len(given), _ROWS_PER_STATEMENT):
        chunk = given[start : start + _ROWS_PER_STATEMENT]
        parameters: list[object] = []
        for (value, keep_ms, _), number in chunk:
            parameters += (value, number, transaction.now + keep_ms)
        if transaction.run(insert_results(len(chunk)), parameters) < len(chunk):
            numbers |= {once.value: _settled(transaction, once, number) for once, number in chunk}
    return numbers


def _settled(transaction: SqliteTransaction, once: IdempotencyKey, number: int) -> int:
    """Return the number that is kept under a key; one that was kept for long enough gives way."""
    kept = recall(transaction, once)
    if kept is not None:
        return kept
    keep(transaction, once, number)
    return number


def recall(transaction: SqliteTransaction, once: IdempotencyKey | None) -> int | None:
    """Return the number that a call has answered; None if it was not carried out."""
    rows = [] if once is None else transaction.rows(QUERIES["call_result"], (once.value, transaction.now))
    return rows[0][0] if rows else None


def recall_places(transaction: SqliteTransaction, once: IdempotencyKey | None, count: int) -> list[Place] | None:
    """Return where a call of so many jobs has put them; None if it was not carried out."""
    rows = [] if once is None else transaction.rows(QUERIES["call_result"], (once.value, transaction.now))
    if not rows or rows[0][1] is None:
        return None
    places = [(priority, local_id) for priority, local_id in json.loads(rows[0][1])]
    return places if len(places) == count else None


def keep(
    transaction: SqliteTransaction, once: IdempotencyKey | None, number: int, places: Sequence[Place] | None = None
) -> None:
    """Keep what a call answers; without a key, nothing."""
    if once is not None:
        text = None if places is None else json.dumps(places, separators=(",", ":"))
        transaction.run(QUERIES["keep_result"], (once.value, number, text, transaction.now + once.keep_ms))


def forget(transaction: SqliteTransaction, requests: Sequence[int]) -> list[int]:
    """Remove results that were kept long enough, up to the number that each request says; return how many."""
    return [transaction.run(QUERIES["forget_results"], (transaction.now, limit)) for limit in requests]
