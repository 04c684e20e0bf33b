"""The database of one shard: upgrades its schema, lends connections and transactions, and retries."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from pinlater.errors import UnknownError
from pinlater.server.backends.mysql.connection import MysqlConnection, StatementResult
from pinlater.server.backends.mysql.errors import (
    ColumnExists,
    ConnectFailed,
    ConnectionLost,
    LockTimeout,
    NoRoom,
    SchemaMissing,
    StatementRejected,
    StatementTimeout,
    TransactionConflict,
    conflict_backoff,
    connection_failed,
    too_many_conflicts,
    unreachable,
)
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import Queries, one_row
from pinlater.server.backends.mysql.row_locks import check_row_locks
from pinlater.server.backends.mysql.session import TABLE_LOCK_SECONDS
from pinlater.server.backends.mysql.transaction import MysqlTransaction, Woken, begin
from pinlater.server.backends.sharded import ClockRecord, ShardClock

log = logging.getLogger(__name__)

_T = TypeVar("_T")

SCHEMA_VERSION = 12

CALL_SECONDS = 8.0
"""Timeout for a call outside a group commit, retries included."""

CONFLICT_SECONDS = 4.5
"""How long a transaction that meets conflicts is retried; once in any case, as the first try may take that long."""

_MAX_TRIES = 5

_UPGRADE_LOCK_SECONDS = 1
"""How long the upgrade of a table waits for those who use it, such as a backup; all others wait for the upgrade."""

_UPGRADE_PAUSE_SECONDS = 20.0
"""How long the upgrade is not tried again after that."""


class Database:
    """The database of one shard.

    Args:
        shard: name of the shard, for errors.
        pool: connections to its server.
        queries: the statements for its database.
        now_ms: a clock for tests; None: the database's clock.

    Attributes:
        keyed_queues: ids of queues in which this server has seen jobs with keys.
        child_queues: ids of queues in which it has seen jobs with a parent.
        noted_failures: by queue id and failure group: the group in which such jobs are stored, and when this server
            last wrote that group's row, in epoch milliseconds.
        clock: the database's clock, as known from its readings.
        on_woken: called after a commit with the sleeping jobs that messages have made due.
        on_outgoing: called after a commit with the shards for which it has left messages.
    """

    def __init__(self, shard: str, pool: MysqlPool, queries: Queries, now_ms: Callable[[], int] | None = None) -> None:
        self.shard = shard
        self.clock = ShardClock(name=f"shard {shard}")
        self.now_ms = now_ms or self.clock.now_ms
        self.queries = queries
        self.keyed_queues: set[int] = set()
        self.child_queues: set[int] = set()
        self.noted_failures: dict[tuple[int, int], tuple[int, int]] = {}
        self.on_woken: Callable[[Sequence[Woken]], None] = lambda _: None
        self.on_outgoing: Callable[[Collection[str]], None] = lambda _: None
        self._pool = pool
        self._refused_at = -math.inf
        self._is_ready = False
        self._preparing = asyncio.Lock()
        self._upgrade_at = -math.inf

    @property
    def seconds_since_failure(self) -> float:
        """Seconds since the server failed or refused to renew claims; 0: it still fails; infinite: it never did."""
        return min(self._pool.seconds_since_failure, asyncio.get_running_loop().time() - self._refused_at)

    @contextmanager
    def noting_refusals(self) -> Iterator[None]:
        """Record whether the block, which renews or ends claims, is refused for lack of space, or stopped by a lock."""
        try:
            yield
        except (NoRoom, StatementTimeout):
            self._refused_at = asyncio.get_running_loop().time()
            raise

    def keep_only(self, queue_ids: frozenset[int]) -> None:
        """Forget what was seen in all other queues, which were deleted."""
        self.keyed_queues &= queue_ids
        self.child_queues &= queue_ids

    def is_past(self, moment_ms: int | None) -> bool:
        """Return whether a moment has come, by the database's clock; False for None."""
        return moment_ms is not None and moment_ms <= self.now_ms()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[MysqlConnection]:
        """Lend a connection; the first one creates or upgrades the schema.

        Raises:
            ConnectionLost: the connection broke; other errors are those of ``errors``.
        """
        async with self._pool.connection() as connection:
            if not self._is_ready:
                await self._prepare(connection)
            try:
                yield connection
            except SchemaMissing:  # dropped, or lost in a fail-over to a replica that was behind
                self._is_ready = False
                raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MysqlTransaction]:
        """Lend a transaction; see ``connection``."""
        async with self.connection() as connection, begin(connection, self.queries, self.now_ms()) as transaction:
            yield transaction
        if transaction.woken:
            self.on_woken(transaction.woken)
        if transaction.outgoing:
            self.on_outgoing(transaction.outgoing)

    @property
    def clock_queries(self) -> list[bytes]:
        """The single-value queries whose values ``learn_clock`` needs."""
        bind = self.queries.bind
        return [bind("clock"), bind("setting", name="time_ahead"), bind("setting", name="time_seen")]

    async def read_clock(self, connection: MysqlConnection) -> float:
        """Read the database's clock; see ``Shard.read_clock``."""

        async def ask() -> Sequence[Any]:
            return (await connection.run(one_row(self.clock_queries)))[0].rows[0]

        return await self.learn_clock(connection, ask)

    async def learn_clock(self, connection: MysqlConnection, ask: Callable[[], Awaitable[Sequence[Any]]]) -> float:
        """Read the database's clock through ``ask``, which returns the values of ``clock_queries``."""
        own_ms, ahead_ms, seen_ms = 0.0, None, None

        async def shown_ms() -> float:
            nonlocal own_ms, ahead_ms, seen_ms
            shown, ahead_ms, seen_ms = await ask()
            own_ms = float(shown)
            return own_ms

        await self.clock.read(shown_ms)
        last = None if ahead_ms is None or seen_ms is None else ClockRecord(ahead_ms, seen_ms)
        record = self.clock.meet(own_ms, last)
        if record is not None:
            store = self.queries.bind("store_clock_record", ahead=round(record.ahead_ms), seen=round(record.seen_ms))
            with suppress(TransactionConflict, StatementRejected):  # another server stores its own, or the disk is full
                await connection.run(store)
        return self.clock.ahead_ms

    async def read(self, query: Callable[[MysqlConnection], Awaitable[_T]]) -> _T:
        """Return the result of ``query``, which is retried if the connection breaks.

        Raises:
            ShardUnreachable, ShardConnectionFailed, UnknownError: it failed.
        """

        async def attempt() -> _T:
            async with self.connection() as connection:
                return await query(connection)

        return await self._retry(attempt, is_repeatable=True)

    async def rows(self, statement: bytes) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows; see ``read``."""
        [(rows, _, _)] = await self.read(lambda connection: connection.run(statement))
        return list(rows)

    async def rows_at(self, statement: Callable[[int], bytes]) -> list[tuple[Any, ...]]:
        """Execute a statement built from the database's time, known once a connection is open; see ``read``."""
        [(rows, _, _)] = await self.read(lambda connection: connection.run(statement(self.now_ms())))
        return list(rows)

    async def change(self, change: Callable[[MysqlTransaction], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        """Return the result of ``change`` in a transaction; it is retried after a conflict.

        Args:
            change: may be called several times.
            is_repeatable: committing it twice does no harm, so it is also retried if the connection breaks.

        Raises:
            ShardUnreachable, ShardConnectionFailed, UnknownError: it failed.
        """

        async def attempt() -> _T:
            async with self.transaction() as transaction:
                return await change(transaction)

        return await self._retry(attempt, is_repeatable=is_repeatable)

    async def execute(self, *statements: bytes) -> list[StatementResult]:
        """Execute a transaction that does no harm if it is committed twice; return its results; see ``change``."""
        return await self.change(lambda transaction: transaction.run_and_commit(*statements), is_repeatable=True)

    @asynccontextmanager
    async def time_limit(self) -> AsyncIterator[None]:
        """Limit the time of the block, including waits for locks of this process.

        Raises:
            ShardConnectionFailed: the time is up.
        """
        try:
            async with asyncio.timeout(CALL_SECONDS):
                yield
        except TimeoutError as error:
            raise connection_failed(self.shard, error) from error

    async def _retry(self, attempt: Callable[[], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        give_up_at = asyncio.get_running_loop().time() + CONFLICT_SECONDS
        tries = 0
        try:
            async with asyncio.timeout(CALL_SECONDS):
                while True:
                    tries += 1
                    try:
                        return await attempt()
                    except ConnectFailed:
                        raise
                    except ConnectionLost:
                        if not is_repeatable or tries >= _MAX_TRIES:
                            raise
                    except TransactionConflict:
                        if tries > 1 and asyncio.get_running_loop().time() >= give_up_at:
                            raise
                        await asyncio.sleep(conflict_backoff(tries))
        except ConnectFailed as error:
            raise unreachable(self.shard, error) from error
        except (ConnectionLost, TimeoutError) as error:
            raise connection_failed(self.shard, error) from error
        except TransactionConflict as error:
            raise too_many_conflicts(error) from error

    async def _prepare(self, connection: MysqlConnection) -> None:
        """Prepare the database for its first use.

        Raises:
            ConnectFailed: it cannot be used, for instance since the user lacks a privilege.
        """
        async with self._preparing:
            if self._is_ready:
                return
            try:
                await self._upgrade_schema(connection)
                await check_row_locks(connection, self._pool.endpoint, self.queries)
                await self.read_clock(connection)  # before the first use of ``now_ms``
            except UnknownError as error:  # as a refusal it would fail calls that other shards can carry out
                raise ConnectFailed(
                    f"database {self.queries.database} cannot be prepared: {error}; the user needs all privileges on it"
                ) from error
            self._is_ready = True

    async def _upgrade_schema(self, connection: MysqlConnection) -> None:
        """Create or upgrade the schema; several servers may do this at once."""
        version = await self._schema_version(connection)
        if version > SCHEMA_VERSION:
            raise ConnectFailed(
                f"database {self.queries.database} has schema version {version}, this server supports up to "
                f"{SCHEMA_VERSION}; install a newer version of pinlater"
            )
        if version == SCHEMA_VERSION:
            return
        if asyncio.get_running_loop().time() < self._upgrade_at:
            raise self._tables_in_use()
        if version:
            log.info("database %s is upgraded from version %d to %d", self.queries.database, version, SCHEMA_VERSION)
        await connection.run(b"SET SESSION lock_wait_timeout = %d" % _UPGRADE_LOCK_SECONDS)
        try:
            for step in range(version + 1, SCHEMA_VERSION + 1):
                for statement in self.queries.schema(step):
                    with suppress(ColumnExists):
                        await connection.run(statement)
        except LockTimeout as error:
            self._upgrade_at = asyncio.get_running_loop().time() + _UPGRADE_PAUSE_SECONDS
            raise self._tables_in_use() from error
        finally:
            if connection.is_open:
                await connection.run(b"SET SESSION lock_wait_timeout = %d" % TABLE_LOCK_SECONDS)

    def _tables_in_use(self) -> ConnectFailed:
        return ConnectFailed(
            f"the tables of database {self.queries.database} have to be upgraded, but another program keeps using one, "
            f"such as a backup by mysqldump; this is tried again every {_UPGRADE_PAUSE_SECONDS:g} s"
        )

    async def _schema_version(self, connection: MysqlConnection) -> int:
        name = self.queries.database.encode()
        found = await connection.run(b"SELECT 1 FROM information_schema.schemata WHERE schema_name = '%b'" % name)
        if not found[0].rows:
            await connection.run(b"CREATE DATABASE IF NOT EXISTS %b CHARACTER SET utf8mb4" % name)
        tables = await connection.run(
            b"SELECT 1 FROM information_schema.tables WHERE table_schema = '%b' AND table_name = 'settings'" % name
        )
        if not tables[0].rows:
            return 0
        [(rows, _, _)] = await connection.run(self.queries.bind("setting", name="schema_version"))
        return int(rows[0][0]) if rows else 0
