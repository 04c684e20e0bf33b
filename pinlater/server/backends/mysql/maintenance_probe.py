"""One query says whether a shard has any work for the monitor: most of the time it has none."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pinlater.model.statistics import HOUR, MINUTE
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queries import one_row

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
    """The first work of each kind, as epoch milliseconds; None: there is none.

    Attributes:
        claim_expires: the end of the first lease.
        succeeded: when the first succeeded job finished.
        failed: when the first failed job finished.
        result_expires: the end of the first saved result of a call.
        period_ends: the end of the first period of a unique key.
        deleted_queue: id of a queue whose jobs are to be deleted.
        deleted_inbox: id of a deleted job that left messages.
        failure_group: when to see next whether a failure group is empty.
        key_rate: when the first key with a rate would have started its next job, in epoch microseconds.
        outgoing: number of a message for another shard.
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
        """Return when the first period of statistics of a resolution begins."""
        return self.first_minute if resolution == MINUTE else self.first_hour


class MaintenanceProbe:
    """Finds work for the monitor.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        bind = database.queries.bind
        statistics = (bind("first_statistics", resolution=resolution) for resolution in (MINUTE, HOUR))
        self._query = one_row([*map(bind, _QUERIES), *statistics])
        self._reading: asyncio.Task[MaintenanceWork] | None = None

    async def find(self) -> MaintenanceWork:
        """Return the first work of each kind; the verbs of the monitor, which come together, share one query."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._end)
        return await asyncio.shield(self._reading)

    async def _read(self) -> MaintenanceWork:
        [row] = await self._database.rows(self._query)
        return MaintenanceWork(*row)

    def _end(self, reading: asyncio.Task[MaintenanceWork]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # if all callers were cancelled, nobody else asks for it
