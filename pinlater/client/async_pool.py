"""The connections of an asyncio client: one call in flight on each, and a limit on their number."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

from pinlater.client.async_connection import AsyncConnection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallTimeout, NotConnected, ServerUnavailable


class _Lending:
    """The connections of one event loop.

    Attributes:
        slots: how many more can be lent.
        idle: those that are not lent.
        lent: those that are, with the value of ``closes`` when they were asked for.
        closes: how often the pool was closed.
    """

    __slots__ = ("closes", "idle", "lent", "slots")

    def __init__(self, size: int) -> None:
        self.slots = asyncio.Semaphore(size)
        self.idle: list[AsyncConnection] = []
        self.lent: dict[AsyncConnection, int] = {}
        self.closes = 0

    def close(self) -> None:
        """Close the idle connections, and the lent ones when they come back."""
        self.closes += 1
        while self.idle:
            with contextlib.suppress(RuntimeError):  # the event loop may be closed
                self.idle.pop().close()


class AsyncPool:
    """Lends connections to the tasks of the running event loop.

    Each event loop has its own; a program has several loops if it calls ``asyncio.run`` again, or in several threads.

    Args:
        servers: where to connect to.
        connect_timeout: seconds until a server counts as unreachable.
        size: maximum number of connections per event loop; further calls wait for one.
    """

    def __init__(self, servers: ServerSet, connect_timeout: float, size: int) -> None:
        if size < 1:
            raise ValueError(f"connections={size} must be at least 1")
        self._servers = servers
        self._connect_timeout = connect_timeout
        self._size = size
        self._lock = threading.Lock()
        self._lendings: dict[asyncio.AbstractEventLoop, _Lending] = {}

    async def borrow(self, timeout: float) -> AsyncConnection:  # noqa: ASYNC109 - one meaning with Pool.borrow
        """Return a connection to a server that is currently in the set.

        Raises:
            CallTimeout: all connections were in use for ``timeout`` seconds.
            NotConnected: no server could be reached.
        """
        lending = self._lending()
        deadline, closes = time.monotonic() + timeout, lending.closes
        try:
            async with asyncio.timeout(timeout):
                await lending.slots.acquire()
        except TimeoutError:
            raise CallTimeout(f"all {self._size} connections were busy; allow more with connections=") from None
        try:
            connection = self._pop() or await self._connect(deadline - time.monotonic())
        except BaseException:
            lending.slots.release()
            raise
        lending.lent[connection] = closes
        return connection

    def give_back(self, connection: AsyncConnection) -> None:
        """Take a borrowed connection back; close it if it waits for replies, or if the pool was closed meanwhile."""
        lending = self._lending()
        lending.slots.release()
        is_wanted = lending.lent.pop(connection, None) == lending.closes
        if is_wanted and connection.is_open and not connection.in_flight:
            lending.idle.append(connection)
        else:
            connection.close()

    def note_loss(self, lost: AsyncConnection) -> None:
        """Make the next calls use another server if this one has accepted the connection, but never answered."""
        if not lost.has_answered:
            self._servers.failed(lost.address)

    def leave(self, borrowed: AsyncConnection) -> None:
        """Make the next calls use another server, since this one does not answer or cannot reach its store."""
        if not self._servers.leave(borrowed.address):
            return
        for connection in (borrowed, *self._lending().idle):
            if connection.address == borrowed.address:
                connection.close()

    def close(self) -> None:
        """Close all idle connections, and the others after their call; the pool stays usable."""
        running = asyncio.get_running_loop()
        with self._lock:
            lendings = list(self._lendings.items())
        for loop, lending in lendings:
            if loop is running or loop.is_closed():
                lending.close()
            else:  # it runs in another thread
                with contextlib.suppress(RuntimeError):  # it has just ended
                    loop.call_soon_threadsafe(lending.close)

    def _pop(self) -> AsyncConnection | None:
        idle = self._lending().idle
        while idle:
            connection = idle.pop()
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

    def _lending(self) -> _Lending:
        loop = asyncio.get_running_loop()
        return self._lendings.get(loop) or self._new_lending(loop)

    def _new_lending(self, loop: asyncio.AbstractEventLoop) -> _Lending:
        """Return a new place for the connections of an event loop; drop those of closed loops."""
        with self._lock:
            for one in [one for one in self._lendings if one.is_closed()]:
                self._lendings.pop(one).close()
            lending = self._lendings[loop] = _Lending(self._size)
        return lending
