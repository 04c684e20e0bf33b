"""Pipelines calls on one connection, each with a callback for its reply."""

from __future__ import annotations

import math
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pinlater.client.connection import Connection
from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import CallError, CallUnsendable, CallUnsupported, PinLaterError, ServerUnavailable, ServiceError
from pinlater.protocol.operations import Call
from pinlater.worker.session.connector import Connector

_T = TypeVar("_T")

CALL_SECONDS = 10.0
"""Longest wait for a reply, on top of the time that the server may park the call."""
_LEAST_CALL_SECONDS = 3.0
"""Longest wait with the shortest leases: a busy server needs some time."""

OnReply = Callable[[Any], None]
"""Called with the reply, or with the error that came instead: a ``ServiceError`` or a ``CallError``."""


class _ExpectedReply(NamedTuple):
    on_reply: OnReply
    deadline: float


class Pipeline:
    """Sends calls without waiting, and passes each reply to its callback, in the order of the calls.

    When the connection is lost, all calls in flight fail. The next ``open`` makes a new one.

    Args:
        connector: makes connections.
        wakeup_fd: readable when waiting should end before a reply arrives.
        lease_seconds: lifetime of the claims. A call fails after a third of it without a reply, so that jobs claimed
            for that reply can be released before they expire.

    Attributes:
        lease_seconds: lifetime of the claims.
    """

    def __init__(self, connector: Connector, wakeup_fd: int, lease_seconds: float = math.inf) -> None:
        self.lease_seconds = lease_seconds
        self._call_seconds = min(CALL_SECONDS, max(lease_seconds / 3, _LEAST_CALL_SECONDS))
        self._connector = connector
        self._wakeup_fd = wakeup_fd
        self._connection: Connection | None = None
        self._expected: deque[_ExpectedReply] = deque()

    @property
    def in_flight(self) -> int:
        """Number of calls without a reply."""
        return len(self._expected)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as known."""
        return self._connection is not None

    @property
    def round_trip_seconds(self) -> float:
        """How long bytes take to the server and back, at best; 0.0 if unknown."""
        return 0.0 if self._connection is None else self._connection.round_trip_seconds

    @property
    def has_reply(self) -> bool:
        """Whether a reply is already in the read buffer."""
        return self._connection is not None and self._connection.has_buffered_reply

    def fileno(self) -> int:
        """Return the connection's descriptor to poll along with others; there must be a call in flight.

        Check ``has_reply`` first.
        """
        assert self._connection is not None
        return self._connection.fileno()

    @property
    def remaining_seconds(self) -> float:
        """Seconds that the oldest call in flight may still take; then ``receive`` fails it."""
        return max(self._expected[0].deadline - time.monotonic(), 0.0)

    @property
    def delay_seconds(self) -> float:
        """Seconds to wait before the next try of ``open``."""
        return self._connector.delay_seconds

    def open(self) -> None:
        """Connect unless connected; replace a connection that the server closed while idle.

        Raises:
            ServerUnavailable: no server can be reached now.
        """
        if self._connection is not None and not self._expected and self._connection.is_stale():
            self.close()
        if self._connection is None:
            self._connection = self._connector.connect()

    def close(self) -> None:
        """Close the connection; no call may be in flight."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, call: Call[Any], on_reply: OnReply) -> None:
        """Send a call; ``on_reply`` is always called, with an error if the connection is lost or not open.

        Args:
            call: what to send.
            on_reply: called with the reply, not converted, or with an error.
        """
        expected = _ExpectedReply(on_reply, time.monotonic() + call.wait + self._call_seconds)
        try:
            self._expected.append(expected)
            self._connected().send(call.method, call.arguments)
        except CallUnsendable as error:  # concerns no other call, and would fail again on any connection
            self._expected.pop()
            on_reply(error)
        except CallError as error:
            self._fail_all(error)
        except BaseException:
            self._break_off()
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            raise ServerUnavailable("not connected")
        return self._connection

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a reply can be received; return False if something else ended the wait.

        Args:
            seconds: longest wait; None: as long as the oldest call may take.
        """
        connection = self._connection
        if connection is None or not self._expected or connection.has_buffered_reply:
            return bool(self._expected)
        remaining = max(self._expected[0].deadline - time.monotonic(), 0.0)
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._wakeup_fd, select.POLLIN)
        ready = dict(poll.poll(1000 * (remaining if seconds is None else min(seconds, remaining))))
        if connection.fileno() in ready:
            return True
        return not ready and (seconds is None or seconds >= remaining)  # timed out: receive() fails the call

    def receive(self) -> None:
        """Receive the reply of the oldest call and pass it on; wait until its deadline at most."""
        sent = self._expected[0]
        assert self._connection is not None
        try:
            try:
                reply = self._connection.receive(max(sent.deadline - time.monotonic(), 0.0))
            except (ServiceError, CallUnsupported) as refusal:
                reply = refusal
            self._connector.contact.record_success()
            self._expected.popleft()
        except CallError as error:
            self._fail_all(error)
            return
        except BaseException:
            self._break_off()
            raise
        sent.on_reply(reply)
        if isinstance(reply, STORE_OUT_OF_REACH):
            self._leave_server()

    def _leave_server(self) -> None:
        """Let the next ``open`` try another server first: perhaps only this one is cut off from the store."""
        if self._connection is not None and not self._expected and self._connector.leave(self._connection.address):
            self.close()

    def call(self, call: Call[_T]) -> _T:
        """Send a call and return its converted reply; pass earlier replies to their callbacks.

        Raises:
            ServiceError, CallError: the call failed.
        """
        result: list[Any] = []
        self.send(call, result.append)
        while not result:
            self.receive()
        if isinstance(result[0], PinLaterError):
            raise result[0]
        return call.convert(result[0])

    def _break_off(self) -> None:
        """Close the connection: a job's signal handler raised an exception somewhere in the middle of a call.

        Otherwise all later replies might be taken for those of other calls.
        """
        self._fail_all(ServerUnavailable("a signal handler of a job has raised an exception amid a call"))

    def _fail_all(self, error: CallError) -> None:
        if self._connection is not None:
            self._connection.close()
            if self._expected:
                self._connector.log_loss(self._connection, error)
            self._connection = None
        lost, self._expected = self._expected, deque()
        for sent in lost:
            sent.on_reply(error)
