"""All connections: listening, limits, what becomes of those that idle or dawdle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinlater.protocol.codec import Codec
from pinlater.server.api.service import Service
from pinlater.server.config.settings import Settings
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.metrics import Metrics
from pinlater.server.net.certificates import Certificates
from pinlater.server.net.connection import Connection
from pinlater.server.net.memory_budget import ROOM_BYTES, AnswerRoom, CallRoom
from pinlater.server.net.peers import Peer, Peers
from pinlater.server.peer_processes.acceptor import Acceptor
from pinlater.server.peer_processes.connection_balancer import Turns

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_KEEP_PATH: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""The next server process listens at the same path."""

_LARGE_AT_ONCE = 2
"""Large calls in the works; each may take many times its size when it is decoded."""

_SWEEP_SECONDS = 1.0
_HANDSHAKE_SECONDS = 10.0


class Transport:
    """Listens, keeps all connections, and lets go of those that idle or dawdle.

    Args:
        service: carries out the calls.
        settings: limits and times.
        metrics: told of what happens.
        certificates: for TLS on TCP ports; None: they are plain.
    """

    def __init__(
        self, service: Service, settings: Settings, metrics: Metrics, certificates: Certificates | None = None
    ) -> None:
        self.service = service
        self.settings = settings
        self.metrics = metrics
        self.codec = Codec()
        self.slots = asyncio.Semaphore(settings.max_concurrent_requests)
        self.large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self.calls = CallRoom(max(ROOM_BYTES, settings.max_frame_bytes))
        self.answers = AnswerRoom()
        self.peers = Peers(settings.max_connections_per_address, settings.max_requests_per_address)
        self.handshake_seconds = min(_HANDSHAKE_SECONDS, settings.partial_frame_timeout_seconds)
        self._certificates = certificates
        self.is_draining = False
        self._all_closed = asyncio.Event()
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server | Acceptor] = []
        self._turns: Turns | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._connections)

    def share(self, listeners: Sequence[socket.socket], file: Path, slot: int) -> None:
        """Serve connections of listeners that other processes accept from as well, from now on; see ``Turns``."""
        self._turns = turns = Turns(file, slot, self._accepted)
        for listener in listeners:
            is_local = listener.family == socket.AF_UNIX
            self._servers.append(Acceptor(listener, self._local if is_local else self._remote, turns))
        self._look_after()

    def _accepted(self) -> int:
        making = sum(server.making for server in self._servers if isinstance(server, Acceptor))
        return len(self._connections) + making

    async def listen(self, *listeners: socket.socket) -> None:
        """Serve the connections that the listeners accept from now on."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            server: asyncio.Server
            if listener.family == socket.AF_UNIX:
                server = await loop.create_unix_server(self._local, sock=listener, backlog=1024, **_KEEP_PATH)
            else:
                server = await loop.create_server(self._remote, sock=listener, backlog=1024)
            self._servers.append(server)
        self._look_after()

    def _local(self) -> Connection:
        return Connection(self)

    def _remote(self) -> Connection:
        return Connection(self, self._certificates.context if self._certificates is not None else None)

    async def drain(self, deadline: float) -> None:
        """Accept nothing new, answer what has been sent, close all; by ``deadline`` of the loop's clock."""
        self.is_draining = True
        for server in self._servers:
            server.close()
        if self._turns is not None:
            self._turns.leave()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._connections):
            connection.close_when_answered()
        self._note_if_empty()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._all_closed.wait()
        for connection in list(self._connections):
            connection.abort("the server stops")

    def opened(self, connection: Connection, address: str) -> Peer | None:
        """Admit a connection, unless there are too many; return whose it is."""
        peer = None
        if len(self._connections) >= self.settings.max_connections:
            log.warning("connection from %s refused: %d are open (MAX_CONNECTIONS)", address, len(self._connections))
        elif (peer := self.peers.admit(address)) is None:
            log.warning("connection from %s refused: it has too many (MAX_CONNECTIONS_PER_ADDRESS)", address)
        if peer is None:
            self.metrics.connections_refused.add()
            return None
        self.metrics.connections_opened.add()
        self._connections.add(connection)
        return peer

    def closed(self, connection: Connection, peer: Peer) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        self.calls.leave(connection)
        self.answers.take(connection)
        self.peers.left(peer)
        self._show_count()
        self._note_if_empty()

    def _show_count(self) -> None:
        if self._turns is not None and not self.is_draining:
            self._turns.show()

    def _note_if_empty(self) -> None:
        if self.is_draining and not self._connections:
            self._all_closed.set()

    def _look_after(self) -> None:
        """Let go of those that idle, and show life to other processes, every second."""
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(_SWEEP_SECONDS, self._look_after)
        self._show_count()
        now = loop.time()
        for connection in list(self._connections):
            connection.check_progress(now)
