"""The connections of a client: one call in flight on each."""

from __future__ import annotations

import os
import threading
import time

from pinlater.client.connection import Connection
from pinlater.client.servers import ServerSet
from pinlater.errors import NotConnected, ServerUnavailable

_MAX_IDLE = 16


class Pool:
    """Lends idle connections to threads; safe across a fork.

    There are as many connections as threads that call at the same time; a few stay open when idle. The most recently
    used one is lent first, so those left over from a burst stay idle, and the server closes them.
    """

    def __init__(self, servers: ServerSet, connect_timeout: float) -> None:
        self._servers = servers
        self._connect_timeout = connect_timeout
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._pid = os.getpid()

    def borrow(self, timeout: float) -> Connection:
        """Return a connection to a server that is currently in the set.

        Args:
            timeout: seconds for connecting, if needed.

        Raises:
            NotConnected: no server could be reached.
        """
        if self._pid != os.getpid():
            self._reset_after_fork()
        while connection := self._pop():
            if connection.address in self._servers.addresses() and not connection.is_stale():
                return connection
            connection.close()
        return connect_any(self._servers, min(timeout, self._connect_timeout))

    def give_back(self, connection: Connection) -> None:
        """Take a borrowed connection back; one that is closed or waits for replies is not lent again."""
        with self._lock:
            if connection.is_open and not connection.in_flight and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def note_loss(self, lost: Connection) -> None:
        """Make the next calls use another server if this one has accepted the connection, but never answered."""
        if not lost.has_answered:
            self._servers.failed(lost.address)

    def leave(self, borrowed: Connection) -> None:
        """Make the next calls use another server, since this one does not answer or cannot reach its store."""
        if not self._servers.leave(borrowed.address):
            return
        with self._lock:
            left = [connection for connection in self._idle if connection.address == borrowed.address]
            self._idle = [connection for connection in self._idle if connection.address != borrowed.address]
        for connection in (borrowed, *left):
            connection.close()

    def close(self) -> None:
        """Close all idle connections; the pool stays usable."""
        while connection := self._pop():
            connection.close()

    def _pop(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _reset_after_fork(self) -> None:
        """Close a fork's copies of the parent's sockets, and replace the lock: the copy may be locked forever."""
        inherited = self._idle
        self._reset()
        for connection in inherited:
            connection.close()


def connect_any(servers: ServerSet, timeout: float) -> Connection:
    """Connect to the first server of a set that can be reached within ``timeout`` seconds.

    Raises:
        NotConnected: no server can be reached; the message says why, for each.
    """
    deadline = time.monotonic() + timeout
    reasons: list[str] = []
    for address in servers.candidates():
        remaining = deadline - time.monotonic()
        if remaining <= 0 and reasons:
            break
        try:
            connection = Connection(address, connect_timeout=remaining, tls=servers.tls)
        except ServerUnavailable as error:
            servers.failed(address)
            reasons.append(str(error))
        else:
            servers.worked(address)
            return connection
    raise NotConnected("; ".join(reasons))
