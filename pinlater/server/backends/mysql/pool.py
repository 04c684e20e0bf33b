"""The connection pool of one server, shared by all shards on it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pinlater.server.backends.mysql.connection import MysqlConnection, MysqlEndpoint
from pinlater.server.backends.mysql.errors import ConnectFailed, ConnectionLost


class MysqlPool:
    """Lends connections, the most recently used first, and opens new ones up to a limit.

    Args:
        endpoint: the server.
        size: most connections lent at once.
    """

    def __init__(self, endpoint: MysqlEndpoint, size: int) -> None:
        self.endpoint = endpoint
        self._free = asyncio.Semaphore(size)
        self._idle: list[tuple[float, MysqlConnection]] = []
        self._lent: set[MysqlConnection] = set()
        self._has_failed = False
        self._recovered_at = -math.inf
        self._is_closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[MysqlConnection]:
        """Lend a connection with no open transaction; the borrower must end its own, or close the connection.

        Raises:
            ConnectFailed: none could be opened.
        """
        async with self._free:
            connection = self._pop_idle() or await self._open()
            self._lent.add(connection)
            try:
                yield connection
                self._note_answer()
            except BaseException as error:
                if not connection.is_open:  # otherwise the server has answered
                    self._has_failed = True
                    if isinstance(error, ConnectionLost):
                        self.close_idle()  # most of them have probably broken as well
                raise
            finally:
                self._lent.discard(connection)
                if connection.is_open:
                    self._idle.append((self._now(), connection))
                    if self._is_closed:
                        self.close_idle()
                    else:
                        self._close_stale()

    async def _open(self) -> MysqlConnection:
        if self._is_closed:
            raise ConnectFailed(f"{self.endpoint!r}: the server stops, or no longer has this shard")
        try:
            connection = await MysqlConnection.open(self.endpoint)
        except BaseException:  # the caller's timeout included
            self._has_failed = True
            raise
        self._note_answer()
        return connection

    def _note_answer(self) -> None:
        if self._has_failed:
            self._has_failed = False
            self._recovered_at = self._now()

    @property
    def connections(self) -> int:
        """Number of open connections, in use or idle."""
        return len(self._idle) + len(self._lent)

    @property
    def seconds_since_failure(self) -> float:
        """Seconds since the server recovered from its last failure; 0: it has not yet; infinite: it never failed."""
        return 0.0 if self._has_failed else self._now() - self._recovered_at

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _pop_idle(self) -> MysqlConnection | None:
        self._close_stale()
        return self._idle.pop()[1] if self._idle else None

    def _close_stale(self) -> None:
        """Close connections that servers or firewalls may have closed; the first has been idle longest."""
        while self._idle and self._now() - self._idle[0][0] >= self._idle[0][1].idle_seconds:
            self._idle.pop(0)[1].close()

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        """Close all connections, and those that are being opened as soon as they are given back."""
        self._is_closed = True
        self.close_idle()
        for connection in list(self._lent):
            connection.close()
