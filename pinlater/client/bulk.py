"""Enqueues batch after batch on one connection, without waiting for each answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Self

from pinlater.client.batches import QueueBatch
from pinlater.client.connection import Connection
from pinlater.client.pool import Pool
from pinlater.client.retrying import is_retryable
from pinlater.errors import CallError, CallTimeout, PinLaterError
from pinlater.model.plural import plural
from pinlater.protocol.idempotency import may_have_been_carried_out
from pinlater.protocol.operations import Call, Calls

MAX_IN_FLIGHT = 4
"""Enough to keep the server busy while this side encodes."""


class BulkEnqueue:
    """Keeps up to four enqueue calls in flight on one borrowed connection.

    If the connection is lost, unanswered calls are sent again, one by one, with the client's usual retries; then a
    new connection is used.

    Args:
        pool: pool of connections.
        calls: builder of the calls.
        execute: makes a call with retries.
        timeout: seconds to wait for one answer.
        progress: called after every batch with the number of jobs stored so far.
    """

    def __init__(
        self,
        pool: Pool,
        calls: Calls,
        execute: Callable[[Call[list[str]]], list[str]],
        timeout: float,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._pool = pool
        self._calls = calls
        self._execute = execute
        self._timeout = timeout
        self._progress = progress
        self._connection: Connection | None = None
        self._window: deque[Call[list[str]]] = deque()
        self.stored = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._connection is not None:
            self._pool.give_back(self._connection)
        if error is not None:
            error.add_note(f"{plural(self.stored)} stored before this")

    def send(self, batch: QueueBatch) -> None:
        """Send a batch; while four answers are outstanding, wait for the oldest one first."""
        while len(self._window) >= MAX_IN_FLIGHT:
            self._settle()
        call = self._calls.enqueue_structs(batch.queue, batch.jobs)
        self._window.append(call)
        try:
            if self._connection is None:
                self._connection = self._pool.borrow(self._timeout)
            self._connection.send(call.method, call.arguments, self._timeout)
        except CallError as error:
            self._recover(call, error)

    def finish(self) -> None:
        """Wait for all answers."""
        while self._window:
            self._settle()

    def _settle(self) -> None:
        """Take the oldest answer."""
        call = self._window[0]
        assert self._connection is not None
        try:
            reply = self._connection.receive(self._timeout)
        except CallError as error:
            self._recover(call, error)
        except PinLaterError as error:
            if not is_retryable(call, error):
                raise
            self._window.popleft()  # the store was out of reach; the connection is fine
            self._store_alone(call)
        else:
            self._window.popleft()
            self._note(call.convert(reply))

    def _recover(self, call: Call[list[str]], error: CallError) -> None:
        """Give up the connection, and send its unanswered calls one by one, with retries."""
        if not is_retryable(call, error):
            raise error
        while self._connection is not None and self._connection.has_buffered_reply:
            self._settle()
        if self._connection is not None:
            if isinstance(error, CallTimeout):  # the server hangs
                self._pool.leave(self._connection)
            self._connection.close()
            self._connection = None
        while self._window:
            self._store_alone(self._window.popleft())

    def _store_alone(self, call: Call[list[str]]) -> None:
        """Send a call again by itself that was in flight with others."""
        may_have_been_carried_out(call.arguments)
        self._note(self._execute(call))

    def _note(self, descriptors: list[str]) -> None:
        self.stored += len(descriptors)
        if self._progress is not None:
            self._progress(self.stored)
