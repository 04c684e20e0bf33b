"""The connections to one server, shared by all shards on it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pinlater.server.backends.mysql.connection import Connection
from pinlater.server.backends.mysql.endpoint import Place
from pinlater.server.backends.mysql.errors import Lost


class Pool:
    """Lends connections, the one that was used last first, and makes new ones up to a limit.

    Args:
        place: the server.
        size: most connections at once.
    """

    def __init__(self, place: Place, size: int) -> None:
        self.place = place
        self._places = asyncio.Semaphore(size)
        self._idle: list[tuple[float, Connection]] = []
        self._lent: set[Connection] = set()
        self._is_failing = False
        self._back_at = -math.inf

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection that has no transaction open; leave it so.

        What is left in the middle of something (an error, a cancellation) is rolled back or closed.

        Raises:
            Unreached: none could be made.
        """
        async with self._places:
            connection = self._take() or await self._open()
            self._lent.add(connection)
            try:
                yield connection
            except Lost:
                self._is_failing = True
                self.forget_idle()  # made before the same fault, most of them
                raise
            finally:
                self._lent.discard(connection)
                if connection.is_open:
                    self._idle.append((self._now(), connection))
                    self._drop_stale()

    async def _open(self) -> Connection:
        try:
            connection = await Connection.open(self.place)
        except BaseException:  # also the caller's impatience
            self._is_failing = True
            raise
        if self._is_failing:
            self._is_failing = False
            self._back_at = self._now()
        return connection

    @property
    def connections(self) -> int:
        """How many there are, at work or idle."""
        return len(self._idle) + len(self._lent)

    @property
    def seconds_since_failure(self) -> float:
        """How long the server has answered, since it was found again; infinite when it always has."""
        return self._now() - self._back_at

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _take(self) -> Connection | None:
        self._drop_stale()
        return self._idle.pop()[1] if self._idle else None

    def _drop_stale(self) -> None:
        """Close those that firewalls and servers may have dropped; the first was not used for longest."""
        while self._idle and self._now() - self._idle[0][0] >= self._idle[0][1].idle_seconds:
            self._idle.pop(0)[1].close()

    def forget_idle(self) -> None:
        """Close the connections that nobody uses now."""
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        """Close all connections."""
        self.forget_idle()
        for connection in list(self._lent):
            connection.close()
