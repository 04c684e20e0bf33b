"""What calls have answered, kept in the transaction of what they did: the same call, sent again, finds it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queries import blob
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sharded import CallResult


async def recall(transaction: Transaction, keys: Iterable[bytes]) -> dict[bytes, CallResult]:
    """Return what is known of calls; what was kept for long enough gives way to what they do now."""
    given = sorted(keys)
    if not given:
        return {}
    _, found = await transaction.run(
        transaction.bind("forget_old_results_of", keys=given, now=transaction.now),
        transaction.bind("call_results", keys=given),
    )
    return {key: _result(number, elsewhere) for key, number, elsewhere, _ in found.rows}


def _result(number: int, elsewhere: bytes | None) -> CallResult:
    return CallResult(number, () if elsewhere is None else [tuple(place) for place in json.loads(elsewhere)])


async def look_up(database: Database, key: bytes) -> CallResult | None:
    """Return what is known of one call."""
    rows = await database.rows(database.queries.bind("call_results", keys=[key]))
    results = [_result(number, elsewhere) for _, number, elsewhere, until in rows if until > database.now_ms()]
    return results[0] if results and results[0].number >= 0 else None


def keep_new(transaction: Transaction, results: Iterable[tuple[IdempotencyKey, CallResult]]) -> list[bytes]:
    """Return the statement, if one is needed, that keeps results of calls that were not carried out yet.

    Should one have been, it is a conflict.
    """
    rows = [
        b"(%b,%d,%b,%d)" % (blob(once.value), number, _write(elsewhere), transaction.now + once.keep_ms)
        for once, (number, elsewhere) in results
    ]
    return [transaction.bind("insert_results") + b",".join(rows)] if rows else []


def _write(elsewhere: Sequence[tuple[int, int, int]]) -> bytes:
    return blob(json.dumps(elsewhere, separators=(",", ":")).encode()) if elsewhere else b"NULL"


class Count(NamedTuple):
    """How many jobs a call may still change, of those that it may change in all.

    Attributes:
        once: what the call is known by; None: nothing is kept of it.
        limit: most jobs in all; None: the call is carried out once, or not at all.
        so_far: how many it has changed already, where nothing is kept of it.
    """

    once: IdempotencyKey | None
    limit: int | None = None
    so_far: int = 0


Work = Callable[[Transaction, int | None], Awaitable[int]]
"""Changes up to a number of jobs (None: all that it is about) in a transaction; returns how many."""


async def count_once(database: Database, count: Count, work: Work) -> int:
    """Return how many jobs a call has changed in all, this time and before; ``work`` may be called several times."""
    once, limit, so_far = count

    async def step(transaction: Transaction) -> int:
        known = None if once is None else await _held(transaction, once)
        if known is not None and limit is None:
            return known
        before = so_far if known is None else known
        number = before + await work(transaction, None if limit is None else max(limit - before, 0))
        if once is not None:
            await transaction.run(transaction.bind("count_result", key=once.value, number=number))
        return number

    return await database.change(step, is_repeatable=once is not None)


async def _held(transaction: Transaction, once: IdempotencyKey) -> int | None:
    """Return what is known of a call, which nobody else carries out until the transaction ends; None: nothing."""
    _, _, found = await transaction.run(
        transaction.bind("forget_old_results_of", keys=[once.value], now=transaction.now),
        transaction.bind("hold_result", key=once.value, expires_at=transaction.now + once.keep_ms),
        transaction.bind("call_results", keys=[once.value]),
    )
    number: int = found.rows[0][1]
    return None if number < 0 else number


async def forget(database: Database, limit: int) -> int:
    """Remove results that were kept for long enough, up to a number; return how many."""

    async def work(transaction: Transaction) -> int:
        keys = [row[0] for row in await transaction.rows("old_results", now=transaction.now, limit=limit)]
        if not keys:
            return 0
        [gone] = await transaction.run(transaction.bind("forget_old_results_of", keys=keys, now=transaction.now))
        return gone.matched

    return await database.change(work, is_repeatable=True)
