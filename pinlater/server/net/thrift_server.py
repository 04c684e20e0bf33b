"""Accept client connections, limit them, and close idle or stalled ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pinlater.protocol.codec import Codec
from pinlater.server.api.service import Service
from pinlater.server.broker.call_slots import CallSlots
from pinlater.server.broker.parking import LastReport
from pinlater.server.config.settings import Settings
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.metrics import Metrics
from pinlater.server.net.certificates import Certificates
from pinlater.server.net.connection import ClientConnection
from pinlater.server.net.memory_budget import BUDGET_BYTES, AnswerBudget, CallBudget
from pinlater.server.net.peers import Peer, Peers
from pinlater.server.net.tls_connection import TlsClientConnection
from pinlater.server.peer_processes.acceptor import Acceptor
from pinlater.server.peer_processes.connection_balancer import ConnectionBalancer

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_KEEP_PATH: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""Keep the socket's path: the next server process listens there."""

_LARGE_AT_ONCE = 2
"""Large calls that run at once; each may take many times its size when decoded."""

_SWEEP_SECONDS = 1.0
_HANDSHAKE_SECONDS = 10.0


class ThriftServer:
    """Accepts client connections, limits them, and closes idle or stalled ones.

    Args:
        service: carries out the calls.
        settings: limits and timeouts.
        metrics: counts connections.
        certificates: for TLS on TCP ports; None: no TLS.
        on_worker_lost: called with the last report of a worker that disconnects without notice.
    """

    def __init__(
        self,
        service: Service,
        settings: Settings,
        metrics: Metrics,
        certificates: Certificates | None = None,
        on_worker_lost: Callable[[LastReport], object] = lambda _: None,
    ) -> None:
        self.on_worker_lost = on_worker_lost
        self.service = service
        self.settings = settings
        self.metrics = metrics
        self.codec = Codec()
        self.large_call_slots = asyncio.Semaphore(_LARGE_AT_ONCE)
        self.call_budget = CallBudget(max(BUDGET_BYTES, settings.max_frame_bytes))
        self.answer_budget = AnswerBudget()
        call_slots = CallSlots(settings.max_concurrent_requests)
        self.peers = Peers(settings.max_connections_per_address, settings.max_requests_per_address, call_slots)
        self.handshake_seconds = min(_HANDSHAKE_SECONDS, settings.partial_frame_timeout_seconds)
        self._certificates = certificates
        self.is_draining = False
        self._all_closed = asyncio.Event()
        self._connections: set[ClientConnection] = set()
        self._servers: list[asyncio.Server | Acceptor] = []
        self._balancer: ConnectionBalancer | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def listen_shared(self, listeners: Sequence[socket.socket], file: Path, slot: int) -> None:
        """Serve listeners that other processes accept from as well; see ``ConnectionBalancer``."""
        self._balancer = balancer = ConnectionBalancer(file, slot, self._connection_count)
        for listener in listeners:
            is_local = listener.family == socket.AF_UNIX
            self._servers.append(Acceptor(listener, self._new_local if is_local else self._new_remote, balancer))
        self._sweep()

    def _connection_count(self) -> int:
        pending = sum(server.pending for server in self._servers if isinstance(server, Acceptor))
        return len(self._connections) + pending

    async def listen(self, *listeners: socket.socket) -> None:
        """Serve listeners of this process alone."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            server: asyncio.Server
            if listener.family == socket.AF_UNIX:
                server = await loop.create_unix_server(self._new_local, sock=listener, backlog=1024, **_KEEP_PATH)
            else:
                server = await loop.create_server(self._new_remote, sock=listener, backlog=1024)
            self._servers.append(server)
        self._sweep()

    def _new_local(self) -> ClientConnection:
        return ClientConnection(self)

    def _new_remote(self) -> ClientConnection:
        if self._certificates is None:
            return ClientConnection(self)
        return TlsClientConnection(self, self._certificates.context)

    async def drain(self, deadline: float) -> None:
        """Stop accepting, answer the received calls, and close all connections by ``deadline`` on the loop's clock."""
        self.is_draining = True
        for server in self._servers:
            server.close()
        if self._balancer is not None:
            self._balancer.withdraw()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in list(self._connections):
            connection.close_when_answered()
        self._set_closed_if_empty()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._all_closed.wait()
        for connection in list(self._connections):
            connection.abort("the server is stopping")

    def admit(self, connection: ClientConnection, address: str) -> Peer | None:
        """Admit a connection, unless there are too many; return its client address, or None."""
        peer = None
        if (count := len(self._connections)) >= self.settings.max_connections:
            reason = "MAX_CONNECTIONS, or the limit of open files"
            log.warning("connection from %s refused: %d are open (%s)", address, count, reason)
        elif (peer := self.peers.admit(address)) is None:
            log.warning("connection from %s refused: this address has too many (MAX_CONNECTIONS_PER_ADDRESS)", address)
        if peer is None:
            self.metrics.connections_refused.add()
            return None
        self.metrics.connections_opened.add()
        self._connections.add(connection)
        return peer

    def forget(
        self,
        connection: ClientConnection,
        peer: Peer,
        report: LastReport | None = None,
        unfinished: asyncio.Task[None] | None = None,
        unfinished_bytes: int = 0,
    ) -> None:
        """Forget a closed connection; while a call of it still runs, the connection and its memory keep counting.

        Args:
            connection: the connection.
            peer: its client address.
            report: the last report of a worker that disconnected without notice; None if none did.
            unfinished: the task that runs the call; None: there is none.
            unfinished_bytes: size of the call.
        """
        if report is not None and not self.is_draining:
            self.on_worker_lost(report)
        self.answer_budget.release(connection)
        if unfinished is not None:
            self.call_budget.release(connection, all_but=unfinished_bytes)
            unfinished.add_done_callback(lambda _: self.forget(connection, peer))
            return
        self.call_budget.release(connection)
        self._connections.discard(connection)
        self.peers.remove(peer)
        self._publish_count()
        self._set_closed_if_empty()

    def _publish_count(self) -> None:
        if self._balancer is not None and not self.is_draining:
            self._balancer.publish()

    def _set_closed_if_empty(self) -> None:
        if self.is_draining and not self._connections:
            self._all_closed.set()

    def _sweep(self) -> None:
        """Close idle and stalled connections, and publish the heartbeat, every second."""
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(_SWEEP_SECONDS, self._sweep)
        self._publish_count()
        now = loop.time()
        for connection in list(self._connections):
            connection.check_progress(now)
