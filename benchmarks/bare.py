"""The baseline: the same rows in the same tables with nothing around SQLite, as fast as one loop can go."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pinlater.server.backends.sqlite.database import CHECKPOINT_PAGES, SCHEMA_VERSION
from pinlater.server.backends.sqlite.queries import QUERIES, schema

QUEUE_ID, PRIORITY, LEASE_MS, ATTEMPTS = 1, 1, 30_000, 4

_INSERT = """INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at,
                               attempts_allowed, attempts_remaining, custom_status, body)
             VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, '', ?)"""

_CLAIM = """UPDATE jobs SET state = 1, claim = ?4, claim_expires = ?5, claim_lease = ?6, updated_at = ?2
            WHERE id IN (SELECT id FROM jobs WHERE state = 0 AND queue_id = ?1 AND priority = ?3 AND run_after <= ?2
                         ORDER BY run_after, id LIMIT ?7)
            RETURNING id, body, attempts_allowed, attempts_remaining, created_at, run_after"""


class BareStore:
    """A file with our schema but no server, synced as a server syncs by default."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;"
            f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA temp_store = MEMORY;"
            + "".join(map(schema, range(1, SCHEMA_VERSION + 1)))
        )
        self._next_id = 1
        self._claims = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def insert(self, bodies: Sequence[bytes], *, delay_ms: int = 0) -> None:
        """Store jobs in one transaction."""
        now, first = _now_ms(), self._next_id
        self._next_id += len(bodies)
        rows = [
            (number, QUEUE_ID, PRIORITY, now + delay_ms, now, now, ATTEMPTS, ATTEMPTS, body)
            for number, body in enumerate(bodies, first)
        ]
        with self._transaction() as connection:
            connection.executemany(_INSERT, rows)

    def claim(self, limit: int) -> list[int]:
        """Claim jobs in one transaction; return their ids."""
        now = _now_ms()
        self._claims += 1
        with self._transaction() as connection:
            parameters = (QUEUE_ID, now, PRIORITY, f"bare:{self._claims}", now + LEASE_MS, LEASE_MS, limit)
            rows = connection.execute(_CLAIM, parameters).fetchall()
        return [row[0] for row in rows]

    def succeed(self, ids: Sequence[int]) -> None:
        """Acknowledge jobs of the last claim, in one transaction."""
        with self._transaction() as connection:
            parameters = (QUEUE_ID, _now_ms(), f"bare:{self._claims}", PRIORITY, json.dumps(ids))
            connection.execute(QUERIES["succeed_jobs"], parameters)

    def drain(self, batch_size: int, *, most: int) -> int:
        """Claim and acknowledge batch after batch, up to ``most`` jobs; return how many."""
        done = 0
        while done < most and (ids := self.claim(min(batch_size, most - done))):
            self.succeed(ids)
            done += len(ids)
        return done

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        yield self._connection
        self._connection.execute("COMMIT")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
