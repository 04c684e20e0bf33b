"""Statistics: rows are locked, merged here and stored in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from pinlater.model.statistics import KEPT_SECONDS
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceProbe
from pinlater.server.backends.mysql.queries import Value, blob
from pinlater.server.backends.mysql.transaction import MysqlTransaction
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

_QUEUES_AT_ONCE = 20


class MysqlStatistics:
    """The part of a shard that stores statistics."""

    _database: Database
    _probe: MaintenanceProbe

    async def add_statistics(self, entries: Sequence[StatisticsEntry]) -> None:
        await self._database.change(lambda transaction: _add(transaction, sorted(entries)), is_repeatable=False)

    async def read_statistics(self, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
        return await self._database.read(lambda connection: _read(self._database, connection, which, limit))

    async def forget_statistics(self, limit: int) -> int:
        work, now_ms = await self._probe.find(), self._database.now_ms()
        deleted = 0
        for resolution in KEPT_SECONDS:
            first_ms, before = work.first_period(resolution), expired_before_ms(now_ms, resolution)
            if first_ms is not None and first_ms < before:
                values = {"resolution": resolution, "before": before, "limit": limit}
                [result] = await self._database.execute(self._database.queries.bind("forget_statistics", **values))
                deleted += result.matched
        return deleted


async def _add(transaction: MysqlTransaction, entries: Sequence[StatisticsEntry]) -> None:
    """Lock the rows in the order of their keys, read them, and store the sums: two packets."""
    groups = [
        (group, sorted({key.queue for key, _ in some}))
        for group, some in ((group, list(some)) for group, some in groupby(entries, _group_of))
    ]
    lock = _insertion(transaction, ((key, b"") for key, _ in entries), "locked_statistics")
    selects = [
        transaction.bind(
            "statistics_to_change",
            resolution=resolution,
            start=start_ms,
            kind=kind,
            queues=[queue.encode() for queue in queues],
        )
        for (resolution, start_ms, kind), queues in groups
    ]
    _, *results = await transaction.run(lock, *selects)
    stored = {
        StatisticsKey(*group, queue.decode(), name.decode()): counts.decode()
        for (group, _), result in zip(groups, results, strict=True)
        for queue, name, counts in result.rows
    }
    sums = (
        (key, encode(merged(decode(stored[key]) if stored[key] else {}, counts)).encode()) for key, counts in entries
    )
    await transaction.run_and_commit(_insertion(transaction, sums, "stored_statistics"))


def _group_of(entry: StatisticsEntry) -> tuple[int, int, int]:
    return entry.key[:3]


def _insertion(transaction: MysqlTransaction, rows: Iterable[tuple[StatisticsKey, bytes]], end: str) -> bytes:
    values = b", ".join(
        b"(%d, %d, %d, %b, %b, %b)" % (*key[:3], blob(key.queue.encode()), blob(key.name.encode()), blob(counts))
        for key, counts in rows
    )
    return b" ".join((transaction.bind("lock_statistics"), values, transaction.bind(end)))


async def _read(
    database: Database, connection: MysqlConnection, which: StatisticsQuery, limit: int
) -> list[StatisticsEntry]:
    found: list[StatisticsEntry] = []
    for starts in chunks(which.starts, PAGE_PERIODS if not which.queues else len(which.starts)):
        values: dict[str, Value] = {
            "starts": starts,
            "resolution": which.resolution,
            "kind": which.kind,
            "is_any": which.name is None,
            "name": (which.name or "").encode(),
            "limit": limit - len(found),
        }
        statements = [
            database.queries.bind("statistics_of_queue", queue=queue.encode(), **values)
            for queue in sorted(set(which.queues))
        ] or [database.queries.bind("statistics_of_all_queues", **values)]
        for some in chunks(statements, _QUEUES_AT_ONCE):
            for result in await connection.run(*some):
                found += (_entry(which, row) for row in result.rows)
        if len(found) >= limit:
            break
    return sorted(found)[:limit]


def _entry(which: StatisticsQuery, row: Sequence[object]) -> StatisticsEntry:
    start_ms, queue, name, counts = row
    assert isinstance(start_ms, int)
    assert isinstance(queue, bytes)
    assert isinstance(name, bytes)
    assert isinstance(counts, bytes)
    return which.entry(start_ms, queue.decode(), name.decode(), counts.decode())
