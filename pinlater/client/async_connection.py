"""One connection for asyncio: calls out, replies in, in the same order (wire contract §1)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from typing import Any, cast
from weakref import WeakSet

from pinlater.client.address import Address
from pinlater.client.connection import MAX_REPLY_BYTES
from pinlater.client.name_lookup import look_up
from pinlater.client.sockets import await_reader, lost, share_of, stopping, tune, unavailable
from pinlater.client.tls import TlsFiles
from pinlater.errors import CallTimeout, CallUnsupported, ProtocolError, ServerUnavailable, ServiceError
from pinlater.protocol.codec import Codec
from pinlater.protocol.framing import FrameSplitter, FrameTooLarge
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.stopping import STOPPING
from pinlater.protocol.strangers import hint_about_server

_LAST_SEQUENCE_ID = 2**31 - 1


class AsyncConnection(asyncio.Protocol):
    """A connection of one event loop; several calls may be in flight.

    As in ``Connection``, it is closed by any failure after which replies cannot be matched to calls: a time-out, a
    cancelled call, bytes that are not a reply.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._codec = Codec()
        self._splitter = FrameSplitter(MAX_REPLY_BYTES)
        self._calls: deque[tuple[str, int, asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._sequence_id = 0
        self.has_answered = False

    @classmethod
    async def open(cls, address: Address, connect_timeout: float, tls: TlsFiles | None = None) -> AsyncConnection:
        """Connect.

        Raises:
            ServerUnavailable: the server cannot be reached within ``connect_timeout`` seconds, or is not trusted.
            ConfigError: a file of ``tls`` (None: the environment's) cannot be used.
        """
        try:
            async with asyncio.timeout(connect_timeout):
                return await cls._connect(address, connect_timeout, tls or TlsFiles.from_environment())
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            raise unavailable(address, error) from error

    @classmethod
    async def _connect(cls, address: Address, seconds: float, tls: TlsFiles) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        if address.kind == "unix":
            _, connection = await loop.create_unix_connection(lambda: cls(address), address.host)
            return connection
        context, name = (tls.context(), address.host) if address.is_tls else (None, None)
        failure, deadline = OSError("its name has no address"), loop.time() + seconds
        found = look_up(address.host, address.port)
        candidates = found.result() if found.done() else await asyncio.wrap_future(found)
        for number, candidate in enumerate(candidates):
            try:
                async with asyncio.timeout(share_of(deadline - loop.time(), len(candidates) - number)):
                    sock = await _connected(candidate)
                _, connection = await loop.create_connection(
                    lambda: cls(address), sock=sock, ssl=context, server_hostname=name
                )
            except OSError as error:
                failure = error
            else:
                return connection
        raise failure

    @property
    def is_open(self) -> bool:
        """Whether calls can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def in_flight(self) -> int:
        """Number of calls whose reply has not come yet."""
        return len(self._calls)

    def close(self) -> None:
        """Close; calls in flight end with ``ServerUnavailable``."""
        self._fail(ServerUnavailable(f"{self.address}: the connection was closed"))

    def send(self, method: str, arguments: Any) -> asyncio.Future[Any]:
        """Send a call; return the future of its reply.

        Raises:
            CallUnsendable: a field has a value its type cannot carry, or the call is too large; nothing was sent.
            ServerUnavailable: the connection is closed.
        """
        if self._transport is None or self._transport.is_closing():
            raise ServerUnavailable(f"{self.address}: the connection is closed")
        number = self._sequence_id = self._sequence_id + 1 if self._sequence_id < _LAST_SEQUENCE_ID else 1
        frame = self._codec.encode_call(method, number, arguments)
        reply = asyncio.get_running_loop().create_future()
        self._calls.append((method, number, reply))
        await_reader(self._transport.get_extra_info("socket"), len(frame))
        self._transport.write(frame)
        return reply

    async def wait_for(self, reply: asyncio.Future[Any], timeout: float) -> Any:  # noqa: ASYNC109 - as everywhere here
        """Wait up to ``timeout`` seconds for a reply, and return it.

        Raises:
            ServiceError: the server refused the call; the connection stays usable.
            CallTimeout: it did not come in time, or the server cannot be reached any more; the connection is closed.
            ServerStopping: the server has not carried the call out, and will not; the connection is closed.
            ServerUnavailable: the connection was lost.
            CallUnsupported: the server does not know the call; the connection stays usable.
            ProtocolError: something other than the reply came; the connection is closed.
        """
        try:
            async with asyncio.timeout(timeout):
                return await reply
        except TimeoutError:
            self.close()
            raise CallTimeout(f"{self.address}: no reply in time") from None
        except asyncio.CancelledError:
            self.close()
            raise

    async def call(self, method: str, arguments: Any, timeout: float = 5.0) -> Any:  # noqa: ASYNC109
        """Send a call and return its reply; raises what ``send`` and ``wait_for`` raise."""
        return await self.wait_for(self.send(method, arguments), timeout)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)
        tune(transport.get_extra_info("socket"))
        _connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Hand every reply to its call."""
        try:
            for frame in self._splitter.feed(data):
                if frame == STOPPING:
                    self._fail(stopping(self.address))
                    return
                self._resolve(frame)
        except (FrameTooLarge, MalformedMessage, ProtocolError) as error:
            self._fail(ProtocolError(f"{self.address}: {error}{hint_about_server(data)}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the calls in flight."""
        self._fail(lost(self.address, exc or ConnectionResetError("the server closed the connection")))

    def _resolve(self, frame: bytes) -> None:
        if not self._calls:
            raise ProtocolError("a reply came to no call")
        method, number, reply = self._calls[0]
        self.has_answered = True
        try:
            result = self._codec.decode_reply(frame, method, number)
        except (ServiceError, CallUnsupported) as error:
            self._calls.popleft()
            _refuse(reply, error)
        else:
            self._calls.popleft()
            if not reply.done():
                reply.set_result(result)

    def replace_copy(self, descriptor: int) -> None:
        """Replace a fork's copy of the socket by a copy of another file.

        The event loop is the parent's, which the transport would change; and its own end must not close another file.
        """
        if self._transport is not None and not self._transport.is_closing():
            os.dup2(descriptor, self._transport.get_extra_info("socket").fileno(), inheritable=False)

    def _fail(self, error: Exception) -> None:
        if self._transport is not None:
            self._transport.abort()
        while self._calls:
            _refuse(self._calls.popleft()[2], error)


async def _connected(candidate: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, target = candidate
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock


def _refuse(reply: asyncio.Future[Any], error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)
        reply.exception()  # mark it as retrieved: nobody may be waiting any more


_connections: WeakSet[AsyncConnection] = WeakSet()


def _close_copies() -> None:
    """Close a fork's copies of its parent's connections; otherwise the server would not notice the parent's death."""
    if _connections:
        nothing = os.open(os.devnull, os.O_RDWR)
        for connection in list(_connections):
            connection.replace_copy(nothing)
        os.close(nothing)
        _connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)
