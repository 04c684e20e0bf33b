"""Bytes <-> calls: connections, frames, order, limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pinlater.errors import ProtocolError, ServiceError, UnknownError
from pinlater.server.broker import Caller
from pinlater.server.calls import CallRefused
from pinlater.server.certificates import Certificates
from pinlater.server.metrics import Metrics
from pinlater.server.peers import Peer, Peers
from pinlater.server.secure import HandshakeFailed, SecureTransport, speaks_tls
from pinlater.server.service import Answer, Service
from pinlater.server.settings import Settings
from pinlater.server.siblings.acceptor import Acceptor
from pinlater.server.siblings.turns import Turns
from pinlater.wire.codec import Call, Codec
from pinlater.wire.framing import FrameSplitter, FrameTooLarge
from pinlater.wire.guard import MalformedMessage

log = logging.getLogger(__name__)

MAX_FRAMES_AHEAD = 16
"""Calls that one connection may have sent ahead of their answers before it is not read any more."""

LARGE_FRAME_BYTES = 512 * 1024
"""Calls of at least this size are decoded in a thread: millions of tiny fields would hold up everybody else."""

_KEEP_PATH: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""The next server process listens at the same path."""

_SWEEP_SECONDS = 1.0
_HANDSHAKE_SECONDS = 10.0
_LINGER_SECONDS = 1.0
"""A peer whose handshake failed has time to read why: closing over what it still sends would wipe that out."""


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


class Connection(asyncio.Protocol):
    """One client: its frames are answered one after the other, in order (wire contract §1).

    Args:
        owner: of all connections.
        tls: what it is to be made with; None: it is plain.
    """

    def __init__(self, owner: Transport, tls: ssl.SSLContext | None = None) -> None:
        self._owner = owner
        self._tls = tls
        self._secure: SecureTransport | None = None
        self._peer: Peer | None = None
        self._failed_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._caller = Caller()
        self._splitter = FrameSplitter(owner.settings.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | SecureTransport
        self._active_at = self._loop.time()
        self._frame_began_at: float | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        network = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._transport = network
        self._peer = self._owner.opened(self, _address(network))
        if self._peer is None:
            network.abort()
        elif self._tls is not None:
            self._transport = self._secure = SecureTransport(network, self._tls)

    def connection_lost(self, _: Exception | None) -> None:
        if self._peer is not None:
            self._owner.closed(self, self._peer)
        self._frames.clear()
        self._caller.hang_up()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._secure is not None:
            data = self._decrypted(self._secure, data)
            if not data:
                return
        self._active_at = self._loop.time()
        try:
            frames = self._splitter.feed(data)
        except FrameTooLarge as error:
            hint = "; it speaks TLS, which this port does not (THRIFT_TLS_CERT)" if speaks_tls(data) else ""
            self._refuse(f"{error}{hint}")
            return
        if not self._splitter.has_partial_frame:
            self._frame_began_at = None
        elif frames or self._frame_began_at is None:
            self._frame_began_at = self._active_at
        if not frames:
            return
        self._frames += frames
        if self._serving is None:
            self._serving = self._loop.create_task(self._serve())
        else:
            self._caller.interrupt()  # a client that goes on does not want to wait any more
            if len(self._frames) >= MAX_FRAMES_AHEAD:
                self._transport.pause_reading()

    def _decrypted(self, secure: SecureTransport, data: bytes) -> bytes:
        """Return what the peer said, if anything yet."""
        if self._failed_at is not None:
            return b""
        try:
            return secure.feed(data)
        except HandshakeFailed as failure:
            self._owner.metrics.handshakes_failed.add()
            self._failed_at = self._loop.time()
            log.info("TLS handshake with %s failed: %s", _address(secure), failure)
        except ssl.SSLError as error:
            self._refuse(f"damaged TLS: {error}")
        return b""

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    # Ours

    def check_progress(self, now: float) -> None:
        """Close a connection on which nothing happens, or a handshake or frame does not come to its end."""
        settings = self._owner.settings
        silence = now - self._active_at
        if self._failed_at is not None:
            if now - self._failed_at > _LINGER_SECONDS:
                self._transport.abort()
        elif self._secure is not None and not self._secure.is_established:
            if silence > self._owner.handshake_seconds:
                self._owner.metrics.handshakes_failed.add()
                self.abort("its TLS handshake did not come to its end")
        elif self._writable is not None and silence > settings.partial_frame_timeout_seconds:
            self.abort("the client does not read its answers")
        elif self._serving is None:
            began_at = now if self._frame_began_at is None else self._frame_began_at
            if now - began_at > settings.partial_frame_timeout_seconds:
                self.abort("a call that had begun did not come to its end")
            elif silence > settings.max_idle_seconds:
                self._transport.close()

    def close_when_answered(self) -> None:
        """Close now, or after the calls that have been received."""
        if self._serving is None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Drop the connection."""
        log.info("connection from %s dropped: %s", self._transport.get_extra_info("peername"), reason)
        self._transport.abort()

    def _refuse(self, reason: str) -> None:
        self._owner.metrics.frames_refused.add()
        self.abort(reason)

    async def _serve(self) -> None:
        """Answer frames until none is left."""
        try:
            while self._frames:
                frame = self._frames.popleft()
                self._caller.is_hurried = bool(self._frames)
                if len(self._frames) < MAX_FRAMES_AHEAD:
                    self._transport.resume_reading()
                await self._answer(await self._decode(frame))
                if self._writable is not None:
                    await self._writable
        except MalformedMessage as error:
            self._refuse(str(error))
        except Exception:
            log.exception("a connection failed")
            self._transport.abort()
        finally:
            self._serving = None
            self._active_at = self._loop.time()
            if self._owner.is_draining:
                self._transport.close()

    async def _decode(self, frame: bytes) -> Call:
        if len(frame) < LARGE_FRAME_BYTES:
            return self._owner.codec.decode_call(frame)
        return await asyncio.to_thread(Codec().decode_call, frame)

    async def _answer(self, call: Call) -> None:
        codec, method, sequence_id = self._owner.codec, call.method, call.sequence_id
        answer = Answer(None)
        try:
            answer = await self._carry_out(call)
            reply = codec.encode_reply(method, sequence_id, answer.success)
        except ServiceError as error:
            reply = codec.encode_service_error(method, sequence_id, error)
        except CallRefused as refusal:
            reply = codec.encode_application_error(method, sequence_id, refusal.kind, str(refusal))
        except ProtocolError as error:
            log.exception("the answer to %s cannot be sent", method)
            reply = codec.encode_service_error(method, sequence_id, UnknownError(str(error)))
            await _undo(answer)
        if self._caller.is_gone or self._transport.is_closing():
            await _undo(answer)
        else:
            self._transport.write(reply)

    async def _carry_out(self, call: Call) -> Answer:
        if _may_wait(call):  # waiting takes no slot
            return await self._owner.service.call(call.method, call.arguments, self._caller)
        assert self._peer is not None
        async with self._peer.slots, self._owner.slots:  # its own first, so that it waits at its own cost
            return await self._owner.service.call(call.method, call.arguments, self._caller)


def _address(transport: asyncio.Transport | SecureTransport) -> str:
    """Return the host that a connection comes from; empty for a Unix socket."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""


def _may_wait(call: Call) -> bool:
    request: Any = getattr(call.arguments, "request", None)
    return bool(getattr(request, "waitMillis", None))


async def _undo(answer: Answer) -> None:
    if answer.undo is not None:
        log.info("an answer could not be delivered; its jobs are given back")
        await answer.undo()
