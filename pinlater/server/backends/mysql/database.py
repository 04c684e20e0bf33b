"""One shard's database: brought to the present schema, then lent out connection by connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from pinlater.errors import UnknownError
from pinlater.server.backends.mysql.connection import Connection
from pinlater.server.backends.mysql.errors import (
    Conflict,
    Lost,
    Refused,
    Unreached,
    connection_failed,
    pause_seconds,
    unreachable,
)
from pinlater.server.backends.mysql.pool import Pool
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.mysql.row_locks import check_row_locks
from pinlater.server.backends.mysql.transaction import Transaction, transaction
from pinlater.server.backends.sharded import ClockRecord, ShardClock

_T = TypeVar("_T")

SCHEMA_VERSION = 3

CALL_SECONDS = 8.0
"""A call that is not part of a lane gets no longer than this, whatever the server does."""

CONFLICT_SECONDS = 4.5
"""What other transactions are in the way of is tried again for so long."""

_MOST_TRIES = 5


class Database:
    """What the parts of a shard work on.

    Args:
        shard: its name, for errors.
        pool: of its server.
        queries: for its database.
        now_ms: the time, for tests; None: the database's own.
    """

    def __init__(self, shard: str, pool: Pool, queries: Queries, now_ms: Callable[[], int] | None = None) -> None:
        self.shard = shard
        self._clock = ShardClock()
        self.now_ms = now_ms or self._clock.now_ms
        self.queries = queries
        self._pool = pool
        self._is_ready = False
        self._making = asyncio.Lock()

    @property
    def seconds_since_failure(self) -> float:
        """How long the server has answered whenever it was asked."""
        return self._pool.seconds_since_failure

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection to a database that has its tables.

        Raises:
            Lost: and the others of ``faults``.
        """
        async with self._pool.connection() as connection:
            if not self._is_ready:
                await self._make_ready(connection)
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Lend a transaction; see ``connection``."""
        async with self.connection() as connection, transaction(connection, self.queries, self.now_ms()) as work:
            yield work

    async def read_clock(self, connection: Connection) -> float:
        """Read the database's clock; see ``Shard``."""
        own_ms, left = 0.0, {}

        async def shown_ms() -> float:
            nonlocal own_ms, left
            shown, last = await connection.run(self.queries.bind("clock"), self.queries.bind("last_visit"))
            own_ms, left = float(shown.rows[0][0]), dict(last.rows)
            return own_ms

        await self._clock.read(shown_ms)
        visit = self._clock.meet(own_ms, ClockRecord(left["time_ahead"], left["time_seen"]) if len(left) == 2 else None)
        if visit is not None:
            with suppress(
                Conflict, Refused
            ):  # others leave theirs; or there is no room, and the time is told all the same
                await connection.run(
                    self.queries.bind("keep_visit", ahead=round(visit.ahead_ms), seen=round(visit.seen_ms))
                )
        return self._clock.ahead_ms

    async def read(self, look: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Return what ``look`` finds on a connection; tried again when the connection breaks.

        Raises:
            ShardUnreachable, ShardConnectionFailed, UnknownError: it could not be done.
        """

        async def attempt() -> _T:
            async with self.connection() as connection:
                return await look(connection)

        return await self._within_time(attempt, is_repeatable=True)

    async def rows(self, statement: bytes) -> list[tuple[Any, ...]]:
        """Return the rows of one statement; see ``read``."""
        [(rows, _, _)] = await self.read(lambda connection: connection.run(statement))
        return list(rows)

    async def change(self, work: Callable[[Transaction], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        """Return what ``work`` does in a transaction; tried again after a conflict.

        Args:
            work: may be called several times.
            is_repeatable: doing it twice does no harm, so that it is tried again also when the connection breaks.

        Raises:
            ShardUnreachable, ShardConnectionFailed, UnknownError: it could not be done.
        """

        async def attempt() -> _T:
            async with self.transaction() as transaction:
                return await work(transaction)

        return await self._within_time(attempt, is_repeatable=is_repeatable)

    @asynccontextmanager
    async def within_time(self) -> AsyncIterator[None]:
        """Bound what is done within, waiting for others who do the same included.

        Raises:
            ShardConnectionFailed: the time is up.
        """
        try:
            async with asyncio.timeout(CALL_SECONDS):
                yield
        except TimeoutError as error:
            raise connection_failed(self.shard, error) from error

    async def _within_time(self, attempt: Callable[[], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        give_up_at = asyncio.get_running_loop().time() + CONFLICT_SECONDS
        tries = 0
        try:
            async with asyncio.timeout(CALL_SECONDS):
                while True:
                    tries += 1
                    try:
                        return await attempt()
                    except Unreached:
                        raise
                    except Lost:
                        if not is_repeatable or tries >= _MOST_TRIES:
                            raise
                    except Conflict:
                        if asyncio.get_running_loop().time() >= give_up_at:
                            raise
                        await asyncio.sleep(pause_seconds(tries))
        except Unreached as error:
            raise unreachable(self.shard, error) from error
        except (Lost, TimeoutError) as error:
            raise connection_failed(self.shard, error) from error
        except Conflict as error:
            raise UnknownError(f"other transactions are in the way, nothing was changed: {error}") from error

    async def _make_ready(self, connection: Connection) -> None:
        """Make the database and its tables as far as they are missing; several servers may do so at once."""
        async with self._making:
            if self._is_ready:
                return
            version = await self._version(connection)
            if version > SCHEMA_VERSION:
                raise Refused(
                    f"database {self.queries.database} has version {version}, this program knows {SCHEMA_VERSION}; "
                    "install a newer one"
                )
            for step in range(version + 1, SCHEMA_VERSION + 1):
                for statement in self.queries.schema(step):
                    await connection.run(statement)
            await check_row_locks(connection, self._pool.place, self.queries)
            await self.read_clock(connection)  # before anybody goes by it
            self._is_ready = True

    async def _version(self, connection: Connection) -> int:
        name = self.queries.database.encode()
        found = await connection.run(b"SELECT 1 FROM information_schema.schemata WHERE schema_name = '%b'" % name)
        if not found[0].rows:
            await connection.run(b"CREATE DATABASE IF NOT EXISTS %b CHARACTER SET utf8mb4" % name)
        tables = await connection.run(
            b"SELECT 1 FROM information_schema.tables WHERE table_schema = '%b' AND table_name = 'settings'" % name
        )
        if not tables[0].rows:
            return 0
        [(rows, _, _)] = await connection.run(self.queries.bind("schema_version"))
        return int(rows[0][0]) if rows else 0
