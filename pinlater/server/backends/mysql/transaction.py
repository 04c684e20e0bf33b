"""A transaction on a borrowed connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from pinlater.errors import ServiceError
from pinlater.server.backends.mysql.connection import MysqlConnection, StatementResult
from pinlater.server.backends.mysql.errors import ConnectionLost, TransactionConflict
from pinlater.server.backends.mysql.queries import Queries, Value


class Woken(NamedTuple):
    """A sleeping job that a message has made due."""

    queue: str
    queue_id: int
    priority: int


class MysqlTransaction:
    """Statements that are executed together or not at all; BEGIN is sent in the same packet as the first one.

    Attributes:
        now: its time in epoch milliseconds, the same for all its statements.
        is_committing: whether the commit was sent, so that a lost connection leaves the outcome unknown.
        woken: the sleeping jobs that it makes due.
        outgoing: the shards for whose jobs it leaves messages.
    """

    def __init__(self, connection: MysqlConnection, queries: Queries, now: int) -> None:
        self._connection = connection
        self._queries = queries
        self._is_open = False
        self._later: list[bytes] = []
        self.now = now
        self.is_committing = False
        self.woken: list[Woken] = []
        self.outgoing: set[str] = set()

    def bind(self, name: str, /, **values: Value) -> bytes:
        """Return a statement with its values bound; see ``Queries.bind``."""
        return self._queries.bind(name, **values)

    def later(self, *statements: bytes) -> None:
        """Queue statements to be sent in one packet with, and before, the next ones or the commit."""
        self._later += statements

    async def run(self, *statements: bytes) -> list[StatementResult]:
        """Execute statements and return their results."""
        before = self._later if self._is_open else [self.bind("begin"), *self._later]
        self._is_open, self._later = True, []
        return (await self._connection.run(*before, *statements))[len(before) :]

    async def rows(self, name: str, /, **values: Value) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows."""
        return list((await self.run(self.bind(name, **values)))[0].rows)

    async def setting(self, name: str) -> int:
        """Return the value of a row of the shard's settings; one that does not exist is created with 0."""
        rows = await self.rows("setting", name=name)
        if not rows:
            await self.run(self.bind("create_setting", name=name))
        return int(rows[0][0]) if rows else 0

    async def run_and_commit(self, *statements: bytes) -> list[StatementResult]:
        """Execute the last statements and commit, in one packet if they fit."""
        self.is_committing = True
        if (
            not self._is_open and not self._later and len(statements) == 1
        ):  # sessions use autocommit, so a single statement is a transaction by itself
            return await self._connection.run(*statements)
        return (await self.run(*statements, self.bind("commit")))[:-1]

    async def commit(self) -> None:
        """Commit, unless nothing was executed or ``run_and_commit`` did."""
        if self._is_open and not self.is_committing:
            await self.run_and_commit()

    async def roll_back(self) -> None:
        """Roll back, so that the connection can be used again."""
        if self._is_open and self._connection.is_open:
            await self._connection.run(self.bind("rollback"))


@asynccontextmanager
async def begin(connection: MysqlConnection, queries: Queries, now: int) -> AsyncIterator[MysqlTransaction]:
    """Lend a transaction: commit it at the end, or roll it back after an error."""
    transaction = MysqlTransaction(connection, queries, now)
    try:
        yield transaction
        await transaction.commit()
    except asyncio.CancelledError:
        connection.close()  # the server rolls back, and the cancelled caller does not have to wait for it
        raise
    except BaseException:
        try:
            with suppress(ConnectionLost, TransactionConflict, ServiceError):
                await transaction.roll_back()
        except BaseException:
            connection.close()
            raise
        raise
