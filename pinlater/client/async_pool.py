"""The connections of an asyncio client: one call in flight on each, and a limit on their number."""

from __future__ import annotations

import asyncio
import contextlib
import time

from pinlater.client.async_connection import AsyncConnection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallTimeout, NotConnected, ServerUnavailable


class AsyncPool:
    """Lends connections to the tasks of the running event loop; starts empty in another loop.

    Args:
        servers: where to connect to.
        connect_timeout: seconds until a server counts as unreachable.
        size: maximum number of connections; further calls wait for one.
    """

    def __init__(self, servers: ServerSet, connect_timeout: float, size: int) -> None:
        if size < 1:
            raise ValueError(f"connections={size} must be at least 1")
        self._servers = servers
        self._connect_timeout = connect_timeout
        self._size = size
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(size)
        self._idle: list[AsyncConnection] = []

    async def borrow(self, timeout: float) -> AsyncConnection:  # noqa: ASYNC109 - one meaning with Pool.borrow
        """Return a connection to a server that is currently in the set.

        Raises:
            CallTimeout: all connections were in use for ``timeout`` seconds.
            NotConnected: no server could be reached.
        """
        self._follow_loop()
        deadline = time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise CallTimeout(f"all {self._size} connections were busy; allow more with connections=") from None
        try:
            return self._pop() or await self._connect(deadline - time.monotonic())
        except BaseException:
            self._slots.release()
            raise

    def give_back(self, connection: AsyncConnection) -> None:
        """Take a borrowed connection back; one that waits for replies is closed."""
        self._slots.release()
        if connection.is_open and not connection.in_flight:
            self._idle.append(connection)
        else:
            connection.close()

    def leave(self, borrowed: AsyncConnection) -> None:
        """Let the next calls go to another server, if there is one: this one does not answer, or reaches no store."""
        if not self._servers.leave(borrowed.address):
            return
        for connection in (borrowed, *self._idle):
            if connection.address == borrowed.address:
                connection.close()

    def close(self) -> None:
        """Close all idle connections; the pool stays usable."""
        while self._idle:
            with contextlib.suppress(RuntimeError):  # its event loop may be closed
                self._idle.pop().close()

    def _pop(self) -> AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.address in self._servers.addresses():
                return connection
            connection.close()
        return None

    async def _connect(self, timeout: float) -> AsyncConnection:  # noqa: ASYNC109
        deadline = time.monotonic() + min(timeout, self._connect_timeout)
        reasons: list[str] = []
        for address in self._servers.candidates():
            remaining = deadline - time.monotonic()
            if remaining <= 0 and reasons:
                break
            try:
                connection = await AsyncConnection.open(address, remaining, self._servers.tls)
            except ServerUnavailable as error:
                self._servers.failed(address)
                reasons.append(str(error))
            else:
                self._servers.worked(address)
                return connection
        raise NotConnected("; ".join(reasons))

    def _follow_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self.close()
            self._loop = loop
            self._slots = asyncio.Semaphore(self._size)
