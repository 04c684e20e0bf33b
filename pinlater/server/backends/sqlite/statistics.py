"""Statistics: added up in the transaction that stores them, and read by the readers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence

from pinlater.model.statistics import KEPT_SECONDS
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.readers import Readers
from pinlater.server.backends.sqlite.transaction import SqliteTransaction
from pinlater.server.backends.sqlite.verb import one_by_one
from pinlater.server.backends.sqlite.writer import Writer
from pinlater.server.backends.statistics import (
    PAGE_PERIODS,
    StatisticsEntry,
    StatisticsKey,
    StatisticsQuery,
    chunks,
    decode,
    encode,
    expired_before_ms,
    merged,
)


class SqliteStatistics:
    """The part of the SQLite store that keeps statistics."""

    _writer: Writer
    _readers: Readers
    now_ms: Callable[[], int]

    async def add_statistics(self, entries: Sequence[StatisticsEntry]) -> None:
        await self._writer.submit(add, (entries,))

    async def read_statistics(self, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
        return await self._readers.run(read, which, limit)

    async def forget_statistics(self, limit: int) -> int:
        return await self._writer.submit(forget, (limit,))


@one_by_one
def add(transaction: SqliteTransaction, entries: Sequence[StatisticsEntry]) -> None:
    """Add counts to the stored ones."""
    rows = transaction.rows(QUERIES["statistics_of_keys"], (json.dumps([key for key, _ in entries]),))
    stored = {StatisticsKey(*row): decode(counts) for *row, counts in rows}
    changed = [(*key, encode(merged(stored.get(key, {}), counts))) for key, counts in entries]
    transaction.run(QUERIES["store_statistics"], (json.dumps(changed),))


def read(connection: sqlite3.Connection, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
    """Return up to ``limit`` entries, read page by page, so that no read transaction stays open for long."""
    found: list[StatisticsEntry] = []
    for starts in chunks(which.starts, PAGE_PERIODS):
        asked = [which.resolution, json.dumps(starts), which.kind, which.name, limit - len(found)]
        name = "statistics_of_all_queues"
        if which.queues:
            name = "statistics_of_queues"
            asked.append(json.dumps(sorted(set(which.queues))))
        found += (which.entry(*row) for row in connection.execute(QUERIES[name], asked).fetchall())
        if len(found) >= limit:
            break
    return found


@one_by_one
def forget(transaction: SqliteTransaction, limit: int) -> int:
    """Delete expired entries, up to ``limit`` of each resolution; return how many."""
    query, now = QUERIES["forget_statistics"], transaction.now
    return sum(
        transaction.run(query, (resolution, expired_before_ms(now, resolution), limit)) for resolution in KEPT_SECONDS
    )
