"""One query tells whether a shard has any work for the monitor; most of the time it has none.

If the monitor wants it, the same query polls all queues and reads the database's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from pinlater.errors import UnknownError
from pinlater.model.statistics import HOUR, MINUTE
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queries import one_row, with_last_row
from pinlater.server.backends.sharded import ShardPoll
from pinlater.server.clock import elapsed_seconds

_QUERIES = (
    "first_claim_expiring",
    "first_succeeded",
    "first_failed",
    "first_result_expiring",
    "first_period_ending",
    "first_deleted_queue",
    "first_deleted_inbox",
    "first_failure_group",
    "first_key_rate",
    "first_outgoing",
)


class MaintenanceWork(NamedTuple):
    """The first work of each kind; None: there is none. Times are epoch milliseconds.

    Attributes:
        claim_expires: when the first lease expires.
        succeeded: when the first succeeded job finished.
        failed: when the first failed job finished.
        result_expires: when the first stored result of a call expires.
        period_ends: when the first period of a unique key ends.
        deleted_queue: id of a deleted queue whose jobs remain to be deleted.
        deleted_inbox: id of a deleted job whose messages remain to be deleted.
        failure_group: when to check next whether a failure group is empty.
        key_rate: the earliest time at which a key with a rate would start its next job, in epoch microseconds.
        outgoing: id of a message for another shard.
        first_minute, first_hour: when the first period of statistics begins.
    """

    claim_expires: int | None
    succeeded: int | None
    failed: int | None
    result_expires: int | None
    period_ends: int | None
    deleted_queue: int | None
    deleted_inbox: int | None
    failure_group: int | None
    key_rate: int | None
    outgoing: int | None
    first_minute: int | None
    first_hour: int | None

    def first_period(self, resolution: int) -> int | None:
        """Return when the first period of statistics with a resolution begins."""
        return self.first_minute if resolution == MINUTE else self.first_hour


class _Answer(NamedTuple):
    """The result of a query: the work, and the poll of all queues, if one was wanted, or the error that it met."""

    work: MaintenanceWork
    poll: ShardPoll | UnknownError | None


class MaintenanceProbe:
    """Finds work for the monitor, and polls all queues.

    Args:
        database: the shard's database.
        priority_levels: priorities are 1 to this.
    """

    def __init__(self, database: Database, priority_levels: int) -> None:
        self._database = database
        self._levels = range(1, priority_levels + 1)
        bind = database.queries.bind
        statistics = (bind("first_statistics", resolution=resolution) for resolution in (MINUTE, HOUR))
        self._queries = [*map(bind, _QUERIES), *statistics]
        self._reading: asyncio.Task[_Answer] | None = None
        self._within_ms: int | None = None

    async def find(self) -> MaintenanceWork:
        """Return the first work of each kind; calls that the monitor makes at the same time share one query."""
        return (await self._share()).work

    async def poll(self, within_ms: int) -> ShardPoll:
        """Return the queues whose first job is due, or falls due within ``within_ms``.

        Raises:
            UnknownError: the poll failed, for instance because the database stopped the query.
        """
        self._within_ms = within_ms
        poll = (await self._share()).poll or (await self._share()).poll  # the first may have been under way
        if isinstance(poll, ShardPoll):
            return poll
        raise poll or UnknownError("another call has taken this poll")

    async def _share(self) -> _Answer:
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._end)
        return await asyncio.shield(self._reading)

    async def _read(self) -> _Answer:
        within_ms, self._within_ms = self._within_ms, None
        poll: ShardPoll | UnknownError | None = None
        if within_ms is not None:
            try:
                return await self._read_all(within_ms)
            except UnknownError as error:  # a poll that takes too long must not keep claims from expiring
                poll = error
        [row] = await self._database.rows(one_row(self._queries))
        return _Answer(MaintenanceWork(*row), poll)

    async def _read_all(self, within_ms: int) -> _Answer:
        database, asked_at = self._database, elapsed_seconds()
        works, clock = len(self._queries), database.clock_queries
        rows: Sequence[Any] = ()

        async def read(connection: MysqlConnection) -> None:
            due = database.queries.bind("due_queues", levels=self._levels, before=database.now_ms() + within_ms)

            async def ask() -> Sequence[Any]:
                nonlocal rows
                rows = (await connection.run(with_last_row(due, 2, [*self._queries, *clock])))[0].rows
                return rows[-1][works:-2]

            await database.learn_clock(connection, ask)

        await database.read(read)
        *dues, last = rows
        first: dict[str, int] = {}
        for *_, name, due_ms in dues:
            first[name] = min(due_ms, first.get(name, due_ms))
        return _Answer(MaintenanceWork(*last[:works]), ShardPoll(asked_at, first))

    def _end(self, reading: asyncio.Task[_Answer]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # if all callers were cancelled, nobody else retrieves it
