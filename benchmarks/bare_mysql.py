"""The baseline for MySQL: the same rows in the same table, with the driver and nothing around it.

This loop skips what the store checks in its transactions (whether a queue still exists, what other priorities have,
when the next job is due), and searches for jobs from the beginning every time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Self

import asyncmy
import uvloop

from pinlater.server.backends.mysql.queries import Queries

QUEUE_ID, PRIORITY, LEASE_MS, ATTEMPTS = 1, 1, 30_000, 4
DATABASE = "bare"

_INSERT = """INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at, attempts_allowed,
                               attempts_remaining, body_bytes, custom_status, body)
             VALUES (%s, %s, 0, %s, %s, %s, %s, %s, %s, %s, '', %s)"""

_FIND = """SELECT id, body, attempts_allowed, attempts_remaining, created_at, run_after FROM jobs
           WHERE queue_id = %s AND state = 0 AND priority = %s AND run_after <= %s
           ORDER BY run_after, id LIMIT %s FOR UPDATE SKIP LOCKED"""

_CLAIM = """UPDATE jobs SET state = 1, claim = %s, moment = %s, claim_lease = %s, updated_at = %s WHERE id IN %s"""

_SUCCEED = """UPDATE jobs SET state = 2, moment = %s, updated_at = %s, unique_key = NULL
              WHERE id IN %s AND state = 1 AND queue_id = %s AND priority = %s AND claim = %s"""


class BareMysql:
    """One connection to a database with our schema."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._connection = self._run(asyncmy.connect(host="127.0.0.1", port=port, user=user, password=password))
        self._next_id = 1
        self._claims = 0
        self._run(self._make_tables())

    def _run(self, awaitable: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    async def _make_tables(self) -> None:
        async with self._connection.cursor() as cursor:
            await cursor.execute(f"CREATE DATABASE {DATABASE}")
            for statement in Queries(DATABASE).schema(1):
                await cursor.execute(statement.decode())
            await cursor.execute(f"USE {DATABASE}")
            await cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await self._connection.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._runner.close()

    def insert(self, bodies: Sequence[bytes], *, delay_ms: int = 0) -> None:
        """Store jobs in one transaction."""
        now, first = _now_ms(), self._next_id
        self._next_id += len(bodies)
        rows = [
            (number, QUEUE_ID, PRIORITY, now + delay_ms, now, now, ATTEMPTS, ATTEMPTS, len(body), body)
            for number, body in enumerate(bodies, first)
        ]
        self._run(self._insert(rows))

    async def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        async with self._connection.cursor() as cursor:
            await cursor.executemany(_INSERT, rows)
        await self._connection.commit()

    def drain(self, batch_size: int, *, most: int) -> int:
        """Claim and acknowledge batch after batch, up to ``most`` jobs; return how many."""
        return int(self._run(self._drain(batch_size, most)))

    async def _drain(self, batch_size: int, most: int) -> int:
        done = 0
        async with self._connection.cursor() as cursor:
            while done < most:
                ids = await self._claim(cursor, min(batch_size, most - done))
                if not ids:
                    break
                now = _now_ms()
                await cursor.execute(_SUCCEED, (now, now, ids, QUEUE_ID, PRIORITY, f"bare:{self._claims}"))
                await self._connection.commit()
                done += len(ids)
        return done

    async def _claim(self, cursor: Any, limit: int) -> tuple[int, ...]:
        now = _now_ms()
        self._claims += 1
        await cursor.execute(_FIND, (QUEUE_ID, PRIORITY, now, limit))
        ids = tuple(row[0] for row in await cursor.fetchall())
        if ids:
            await cursor.execute(_CLAIM, (f"bare:{self._claims}", now + LEASE_MS, LEASE_MS, now, ids))
        await self._connection.commit()
        return ids


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
