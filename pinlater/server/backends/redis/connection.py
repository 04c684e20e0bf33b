"""A connection to a shard, shared by many calls: commands that arrive while a batch is in flight form the next batch.

Redis executes a batch in one go, and with ``appendfsync always`` syncs once for all of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import hiredis
from redis.exceptions import RedisError

from pinlater.errors import ServiceError, ShardConnectionFailed
from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.redis.resp import RespConnection
from pinlater.server.backends.sharded import ShardUnreachable

log = logging.getLogger(__name__)

CONNECT_SECONDS = 2.0
"""Timeout for opening a connection, including Sentinel and log-in."""

ANSWER_SECONDS = 4.0
"""Timeout for the answers to a batch; after it, the connection is closed."""

CALL_SECONDS = 9.5
"""Timeout for a call, from when it is queued."""

_MAX_BATCH_BYTES = 4_000_000
_MAX_BATCH_COMMANDS = 500
"""Limits of a batch; a single command may be larger. Only one batch is in flight, so no more than one is buffered."""

_CLOSE_SECONDS = 5.0

Handshake = Callable[[RespConnection], Awaitable[None]]
"""Runs first on every new connection; an error closes it."""


class _QueuedCommand(NamedTuple):
    packed: bytes
    future: asyncio.Future[Any]
    queued_at: float


class SharedConnection:
    """Connects when the first command is sent, and again after a failure. Create it in the event loop.

    Args:
        name: name of the shard, for errors.
        endpoint: endpoint of the shard's server.
        handshake: see ``Handshake``.
        on_commit: called with the stats of each batch.
    """

    def __init__(
        self,
        name: str,
        endpoint: RedisEndpoint,
        handshake: Handshake,
        on_commit: Callable[[CommitStats], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._handshake = handshake
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()  # kept, since getting it may take a system call
        self._connection: RespConnection | None = None
        self._queued: list[_QueuedCommand] = []
        self._batch: list[_QueuedCommand] = []
        self._sent_at = 0.0
        self._failed_at = -math.inf
        self._is_scheduled = False
        self._is_closed = False
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds_since_failure(self) -> float:
        """Seconds since the last failed batch or connection attempt; infinite if there was none."""
        return time.monotonic() - self._failed_at

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self._connection is not None and self._connection.is_open

    @property
    def waiting(self) -> int:
        """Number of commands without an answer."""
        return len(self._queued) + len(self._batch)

    def call(self, *command: Any) -> asyncio.Future[Any]:
        """Queue a command and return the future of its answer. Commands queued in one turn of the loop go together.

        Raises:
            ShardUnreachable: by the future; the command was not sent.
            ShardConnectionFailed: by the future; the command was sent, but it is unknown whether it was executed.
            ResponseError: by the future; Redis refused the command.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queued.append(_QueuedCommand(hiredis.pack_command(command), future, time.monotonic()))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._send_next)
        return future

    def disconnect(self) -> None:
        """Disconnect, so that the next command opens a new connection."""
        if self._connection is not None:
            self._connection.close()

    async def close(self) -> None:
        """Wait a few seconds at most for the outstanding answers, and disconnect."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while pending := [each.future for each in (*self._batch, *self._queued) if not each.future.done()]:
                    await asyncio.wait(pending)
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self._fail_queued(self._closed())
        if self._connection is not None:
            self._connection.close("the server stops")
        if self._timer is not None:
            self._timer.cancel()

    # Sending

    def _send_next(self) -> None:
        """Send the next batch; connect first if necessary."""
        if not self._queued:
            self._is_scheduled = False
            return
        connection = self._connection
        if connection is None or not connection.is_open:
            if self._is_closed:
                self._is_scheduled = False
                self._fail_queued(self._closed())
                return
            self.disconnect()
            self._connecting = asyncio.create_task(self._connect())
            return
        self._batch = self._next_batch()
        self._sent_at = time.monotonic()
        if self._timer is None:
            self._start_timer(ANSWER_SECONDS)
        connection.send(
            b"".join([command.packed for command in self._batch]), [command.future for command in self._batch]
        )

    def _next_batch(self) -> list[_QueuedCommand]:
        size = 0
        for at, command in enumerate(self._queued):
            size += len(command.packed)
            if at and (size > _MAX_BATCH_BYTES or at >= _MAX_BATCH_COMMANDS):
                batch, self._queued = self._queued[:at], self._queued[at:]
                return batch
        batch, self._queued = self._queued, []
        return batch

    def _finish_batch(self) -> None:
        batch, self._batch = self._batch, []
        self._on_commit(CommitStats(len(batch), time.monotonic() - self._sent_at))
        self._send_next()

    def _fail_batch(self, unanswered: Iterable[asyncio.Future[Any]], reason: str) -> None:
        """Fail the unanswered calls of a lost connection; commands that were not sent yet go to the next connection."""
        self._connection = None
        batch, self._batch = self._batch, []
        if not batch:
            return
        error = self._outcome_unknown(reason)
        for future in unanswered:
            _fail(future, error)
        self._failed_at = time.monotonic()
        self._on_commit(CommitStats(len(batch), self._failed_at - self._sent_at, is_failed=True))
        self._send_next()

    def _fail_queued(self, error: ServiceError) -> None:
        queued, self._queued = self._queued, []
        for command in queued:
            _fail(command.future, error)

    def _closed(self) -> ShardUnreachable:
        return ShardUnreachable(f"the connection to shard {self._name} was closed")

    def _outcome_unknown(self, reason: str) -> ShardConnectionFailed:
        return ShardConnectionFailed(
            f"shard {self._name} at {self._endpoint} did not answer; the call may or may not have been executed: "
            f"{reason}"
        )

    # Connecting

    async def _connect(self) -> None:
        """Connect and send the next batch; if that is impossible, fail the queued commands."""
        error = self._closed()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._connection = await self._open()
        except (RedisError, OSError, TimeoutError) as failure:
            error = ShardUnreachable(
                f"shard {self._name} at {self._endpoint} cannot be reached: {str(failure) or 'no answer'}"
            )
        finally:
            self._connecting = None
            if self._connection is None:
                self._failed_at = time.monotonic()
                self._fail_queued(error)
            self._send_next()

    async def _open(self) -> RespConnection:
        connection = await self._endpoint.open(CONNECT_SECONDS)
        try:
            await self._handshake(connection)
        except BaseException:
            connection.close()
            raise
        connection.on_answered = self._finish_batch
        connection.on_lost = self._fail_batch
        return connection

    # Timeouts: one timer for all commands, which is restarted only after it has fired

    def _start_timer(self, seconds: float) -> None:
        self._timer = self._loop.call_later(max(seconds, 0), self._check_timeouts)

    def _check_timeouts(self) -> None:
        """Fail the calls that have waited too long; if the batch in flight has, close the connection."""
        self._timer = None
        now = time.monotonic()
        if self._batch and self._connection is not None and now >= self._sent_at + ANSWER_SECONDS:
            # Fail the queued commands now, too, instead of after another timeout.
            self._fail_queued(ShardUnreachable(f"shard {self._name} at {self._endpoint} does not answer"))
            self._connection.abort(f"no answer within {ANSWER_SECONDS:g} s")
            return
        waiting = [command for command in (*self._batch, *self._queued) if not command.future.done()]
        for command in waiting:
            if now >= command.queued_at + CALL_SECONDS:
                _fail(command.future, self._outcome_unknown(f"no answer within {CALL_SECONDS:g} s"))
        ends = [command.queued_at + CALL_SECONDS for command in waiting if not command.future.done()]
        if self._batch:
            ends.append(self._sent_at + ANSWER_SECONDS)
        if ends:
            self._start_timer(min(*ends, now + ANSWER_SECONDS) - now)  # in case a batch is sent meanwhile


def _fail(future: asyncio.Future[Any], error: ServiceError) -> None:
    if not future.done():
        future.set_exception(error)
