"""One transaction on a lent connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from pinlater.errors import ServiceError
from pinlater.server.backends.mysql.connection import Connection, Result
from pinlater.server.backends.mysql.errors import Conflict, Lost
from pinlater.server.backends.mysql.queries import Queries, Value


class Transaction:
    """Statements that are carried out together or not at all; the first one opens it, in the same packet.

    Attributes:
        now: its time in epoch milliseconds, the same for all its statements.
        is_committing: whether the commit was sent, so that a lost connection leaves its outcome unknown.
    """

    def __init__(self, connection: Connection, queries: Queries, now: int) -> None:
        self._connection = connection
        self._queries = queries
        self._is_open = False
        self.now = now
        self.is_committing = False

    def bind(self, name: str, /, **values: Value) -> bytes:
        """Return a statement; see ``Queries``."""
        return self._queries.bind(name, **values)

    async def run(self, *statements: bytes) -> list[Result]:
        """Execute statements; return what each returned."""
        if not self._is_open:
            self._is_open = True
            return (await self._connection.run(self.bind("begin"), *statements))[1:]
        return await self._connection.run(*statements)

    async def rows(self, name: str, /, **values: Value) -> list[tuple[Any, ...]]:
        """Execute one statement; return its rows."""
        return list((await self.run(self.bind(name, **values)))[0].rows)

    async def run_to_end(self, *statements: bytes) -> list[Result]:
        """Execute the last statements and commit, in one packet if they fit."""
        self.is_committing = True
        return (await self.run(*statements, self.bind("commit")))[:-1]

    async def commit(self) -> None:
        """Make it last; nothing to do when nothing was executed."""
        if self._is_open and not self.is_committing:
            self.is_committing = True
            await self._connection.run(self.bind("commit"))

    async def roll_back(self) -> None:
        """Undo everything, and let the connection be used again."""
        if self._is_open and self._connection.is_open:
            await self._connection.run(self.bind("rollback"))


@asynccontextmanager
async def transaction(connection: Connection, queries: Queries, now: int) -> AsyncIterator[Transaction]:
    """Commit at the end; roll back when something goes wrong."""
    work = Transaction(connection, queries, now)
    try:
        yield work
        await work.commit()
    except asyncio.CancelledError:
        connection.close()  # nobody waits for a rollback; cutting the connection is one
        raise
    except BaseException:
        try:
            with suppress(Lost, Conflict, ServiceError):
                await work.roll_back()
        except BaseException:
            connection.close()
            raise
        raise
