"""Results of calls with an idempotency key, stored in the transaction of the changes in case the call is repeated."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queries import blob
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import IdempotencyKey, Once
from pinlater.server.backends.sharded import CallResult


async def find_results(transaction: MysqlTransaction, keys: Iterable[bytes]) -> dict[bytes, CallResult]:
    """Return the stored results by key; delete expired ones, so that new ones can be stored."""
    given = sorted(keys)
    if not given:
        return {}
    _, found = await transaction.run(
        transaction.bind("delete_expired_results", keys=given, now=transaction.now),
        transaction.bind("call_results", keys=given),
    )
    return {key: _parse(number, elsewhere) for key, number, elsewhere, _ in found.rows}


def _parse(number: int, elsewhere: bytes | None) -> CallResult:
    return CallResult(number, () if elsewhere is None else [tuple(item) for item in json.loads(elsewhere)])


async def read_result(database: Database, key: bytes) -> CallResult | None:
    """Return the stored result of a call; None if there is none."""
    rows = await database.rows(database.queries.bind("call_results", keys=[key]))
    results = [_parse(number, elsewhere) for _, number, elsewhere, until in rows if until > database.now_ms()]
    return results[0] if results and results[0].number >= 0 else None


def insert_results(transaction: MysqlTransaction, results: Iterable[tuple[IdempotencyKey, CallResult]]) -> list[bytes]:
    """Return the statement, if any, that stores new results; a key that already has a result is a conflict."""
    rows = [
        b"(%b,%d,%b,%d)" % (blob(once.value), number, _json(elsewhere), transaction.now + once.keep_ms)
        for once, (number, elsewhere) in results
    ]
    return [transaction.bind("insert_results") + b",".join(rows)] if rows else []


def _json(elsewhere: Sequence[tuple[int, int, int]]) -> bytes:
    return blob(json.dumps(elsewhere, separators=(",", ":")).encode()) if elsewhere else b"NULL"


class ChangeQuota(NamedTuple):
    """How many jobs a call may change, including its repeats.

    Attributes:
        once: key of the call; None: its result is not stored.
        limit: most jobs in all; None: no limit, and a repeat of the call changes nothing.
        so_far: how many jobs it has changed in earlier pages; used if it has no stored result.
    """

    once: Once
    limit: int | None = None
    so_far: int = 0


Change = Callable[[MysqlTransaction, int | None], Awaitable[int]]
"""Changes up to a number of jobs (None: no limit) in a transaction; returns how many it has changed."""


async def change_once(database: Database, quota: ChangeQuota, change: Change) -> int:
    """Make a call's changes and store its result; return how many jobs it has changed in all.

    ``change`` may be called several times.
    """
    once, limit, so_far = quota

    async def change_and_store(transaction: MysqlTransaction) -> int:
        known = None if once is None else await _lock_result(transaction, once)
        if known is not None and limit is None:
            return known
        before = so_far if known is None else known
        number = before + await change(transaction, None if limit is None else max(limit - before, 0))
        if once is not None:
            await transaction.run(transaction.bind("update_result", key=once.value, number=number))
        return number

    return await database.change(change_and_store, is_repeatable=once is not None)


async def _lock_result(transaction: MysqlTransaction, once: IdempotencyKey) -> int | None:
    """Lock the result of a call until the end of the transaction, and return it; None if there is none."""
    _, _, found = await transaction.run(
        transaction.bind("delete_expired_results", keys=[once.value], now=transaction.now),
        transaction.bind("lock_result", key=once.value, expires_at=transaction.now + once.keep_ms),
        transaction.bind("call_results", keys=[once.value]),
    )
    number: int = found.rows[0][1]
    return None if number < 0 else number


async def delete_expired(database: Database, limit: int) -> int:
    """Delete up to ``limit`` expired results; return how many."""
    found = await database.rows_at(lambda now: database.queries.bind("expired_results", now=now, limit=limit))
    if not found:
        return 0
    keys = [key for (key,) in found]
    delete = database.queries.bind("delete_expired_results", keys=keys, now=database.now_ms())
    return (await database.execute(delete))[0].matched
