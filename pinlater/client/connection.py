"""One blocking connection: calls out, replies in, in the same order (wire contract §1)."""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Any, Self
from weakref import WeakSet

from pinlater.client.address import Address
from pinlater.client.sockets import await_reader, connect, lost, round_trip_seconds, stopping
from pinlater.client.tls import SecureSocket, TlsFiles
from pinlater.errors import (
    CallError,
    CallTimeout,
    CallUnsupported,
    PinLaterError,
    ProtocolError,
    ServerUnavailable,
)
from pinlater.protocol.codec import Codec
from pinlater.protocol.framing import FrameSplitter, FrameTooLarge
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.stopping import STOPPING
from pinlater.protocol.strangers import hint_about_server

MAX_REPLY_BYTES = 256 << 20
"""Largest accepted reply. A dequeue may return many large bodies; beyond this, the peer is no PinLater server."""

_READ_BYTES = 64 * 1024
"""Bytes to read at once. Above 128 KiB, malloc may map and unmap memory for each reply, in three system calls."""

_LAST_SEQUENCE_ID = 2**31 - 1


class Connection:
    """A connection to one server, used by one thread at a time.

    Several calls may be in flight. A failure after which replies cannot be matched to calls closes the connection, so
    a late reply is never taken for that of another call; make a new connection then.

    Args:
        address: server to connect to, at once.
        connect_timeout: seconds to wait for the connection.
        codec: codec to share with other connections of the same thread.
        tls: files for a ``tls://`` address; None: those of the environment.

    Raises:
        ServerUnavailable: it cannot be reached within ``connect_timeout``, or is not trusted.
        ConfigError: a file of ``tls`` cannot be used.
    """

    def __init__(
        self,
        address: Address,
        *,
        connect_timeout: float = 2.0,
        codec: Codec | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        self.address = address
        self._codec = codec or Codec()
        self._socket = connect(address, connect_timeout, tls or TlsFiles.from_environment())
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._splitter = FrameSplitter(MAX_REPLY_BYTES)
        self._calls: deque[tuple[str, int]] = deque()
        self._replies: deque[bytes] = deque()
        self._sequence_id = 0
        self._open = True
        self._is_stopping = False
        self._pid = os.getpid()
        self.has_answered = False  # any call; what accepts connections may be a proxy whose server is gone
        _connections.add(self)

    @property
    def is_open(self) -> bool:
        """Whether calls can be sent: it is open, not inherited by a fork, and the server is not stopping."""
        return self._open and not self._is_stopping

    @property
    def in_flight(self) -> int:
        """Number of calls whose reply has not been received yet."""
        return len(self._calls)

    @property
    def round_trip_seconds(self) -> float:
        """How long bytes take to the server and back, at best; 0.0 if unknown."""
        return round_trip_seconds(self._socket)

    @property
    def has_buffered_reply(self) -> bool:
        """Whether ``receive`` would return without reading from the network."""
        return bool(self._replies)

    def is_stale(self) -> bool:
        """Whether the server has closed the connection, or sent something, while no call was in flight."""
        return not self.is_open or (bool(self._poll.poll(0)) and not self._has_only_tls_records())

    def _has_only_tls_records(self) -> bool:
        """Tell whether only TLS records without data arrived, such as a session ticket."""
        if not isinstance(self._socket, SecureSocket):
            return False
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def fileno(self) -> int:
        """Return the file descriptor, to wait for several connections at once; -1 once closed.

        Check ``has_buffered_reply`` first: a reply that was already read does not make the descriptor readable.
        """
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection; outstanding replies are lost. After a fork, only this process's copy is closed."""
        self._open = False
        if self._pid == os.getpid():
            with suppress(OSError):  # closes it for the server even if a fork has a copy
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def send(self, method: str, arguments: Any, timeout: float = 5.0) -> int:
        """Send a call without waiting for its reply.

        While the server accepts no more bytes, replies are read, so the two sides never wait for each other.

        Args:
            method: name as in the wire contract.
            arguments: its argument struct, ``arguments_of(method)(...)``.
            timeout: seconds to hand all bytes to the network.

        Returns:
            The sequence id.

        Raises:
            CallUnsendable: a field has a value its type cannot carry, or the call is too large; nothing was sent.
            ServerUnavailable: the connection was lost.
            CallTimeout: the server stopped reading, or cannot be reached any more; the connection is closed.
        """
        self._check_open()
        number = self._sequence_id = self._sequence_id + 1 if self._sequence_id < _LAST_SEQUENCE_ID else 1
        frame = self._codec.encode_call(method, number, arguments)
        self._calls.append((method, number))
        await_reader(self._socket, len(frame))
        sent = self._write(frame)
        if sent < len(frame):
            self._write_rest(memoryview(frame)[sent:], time.monotonic() + timeout)
        return number

    def receive(self, timeout: float) -> Any:
        """Return the reply to the oldest call in flight; None for a void method.

        Args:
            timeout: seconds to wait for it.

        Raises:
            ServiceError: the server refused the call; the connection stays usable.
            CallTimeout: it did not come in time, or the server cannot be reached any more; the connection is closed.
            ServerStopping: the server has not carried the call out, and will not; the connection is closed.
            ServerUnavailable: the connection was lost.
            CallUnsupported: the server does not know the call; the connection stays usable.
            ProtocolError: something other than the reply came; the connection is closed.
        """
        if not self._calls:
            raise RuntimeError("receive() without a call in flight")
        if not self._replies:
            self._read_reply(timeout)
        method, number = self._calls.popleft()
        try:
            return self._codec.decode_reply(self._replies.popleft(), method, number)
        except MalformedMessage as error:
            self.close()
            raise ProtocolError(f"{self.address}: {error}") from error
        except CallUnsupported:
            raise
        except ProtocolError:
            self.close()
            raise

    def call(self, method: str, arguments: Any, timeout: float = 5.0) -> Any:
        """Send a call and return its reply, within ``timeout`` seconds; raises what ``send`` and ``receive`` raise.

        No other call may be in flight.
        """
        if self._calls:
            raise RuntimeError("call() while other calls are in flight; use receive()")
        deadline = time.monotonic() + timeout
        self.send(method, arguments, timeout)
        return self.receive(deadline - time.monotonic())

    def _check_open(self) -> None:
        if self._is_stopping:
            raise self._lost(ConnectionResetError())
        if not self.is_open:
            raise ServerUnavailable(f"{self.address}: the connection is closed, or of the parent process")

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            with suppress(PinLaterError):
                self._read()  # the server may have announced that it is stopping
            raise self._lost(error) from error

    def _write_rest(self, rest: memoryview, deadline: float) -> None:
        self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
        while rest:
            if self._wait(deadline) & ~select.POLLOUT:
                self._read()
                self._check_open()
            rest = rest[self._write(rest) :]
        self._poll.modify(self._socket, select.POLLIN)

    def _read_reply(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._check_open()
        while not self._replies:
            self._wait(deadline)
            self._read()
            if not self._replies:
                self._check_open()

    def _read(self) -> None:
        data = b""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost(ConnectionResetError("the server closed the connection"))
        try:
            frames = self._splitter.feed(data)
        except FrameTooLarge as error:
            self.close()
            hint = hint_about_server(data)
            raise ProtocolError(f"{self.address} is no PinLater server: {error}{hint}") from error
        if frames and frames[-1] == STOPPING:
            self._is_stopping = True
            frames.pop()
        if frames:
            self.has_answered = True
            self._replies.extend(frames)

    def _wait(self, deadline: float) -> int:
        """Return the poll events of the socket."""
        remaining = deadline - time.monotonic()
        events = self._poll.poll(max(remaining, 0.0) * 1000)
        if events:
            return events[0][1]
        self.close()
        method = self._calls[0][0] if self._calls else "call"
        raise CallTimeout(f"{self.address}: no reply to {method} in time")

    def _lost(self, error: OSError) -> CallError:
        self.close()
        return stopping(self.address) if self._is_stopping else lost(self.address, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_connections: WeakSet[Connection] = WeakSet()


def _close_copies() -> None:
    """Close a fork's copies of its parent's connections; otherwise the server would not notice the parent's death."""
    for connection in list(_connections):
        connection.close()
    _connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)
