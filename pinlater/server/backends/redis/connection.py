"""A connection to a shard, shared by many calls: commands that arrive while a batch is in flight form the next batch.

Redis executes a batch in one go, and with ``appendfsync always`` syncs once for all of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import hiredis
from redis.asyncio import Connection
from redis.exceptions import RedisError, ResponseError

from pinlater.errors import ServiceError, ShardConnectionFailed
from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.sharded import ShardUnreachable

log = logging.getLogger(__name__)

CONNECT_SECONDS = 2.0
"""Timeout for opening a connection, Sentinel and log-in included."""

ANSWER_SECONDS = 4.0
"""Timeout for the answers to a batch; then the connection is closed."""

_MAX_BATCH_BYTES = 4_000_000
_MAX_BATCH_COMMANDS = 500
"""Limits of a batch; a single command may be larger."""

_CLOSE_SECONDS = 5.0

Handshake = Callable[[Connection], Awaitable[None]]
"""Runs first on every new connection; an error closes it."""


class _QueuedCommand(NamedTuple):
    packed: bytes
    future: asyncio.Future[Any]


class SharedConnection:
    """Connects when the first command is sent, and again after a failure.

    Args:
        name: of the shard, for errors.
        endpoint: of its server.
        handshake: see ``Handshake``.
        on_commit: is told of each batch.
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
        self._connection: Connection | None = None
        self._queued: list[_QueuedCommand] = []
        self._in_flight = 0
        self._failed_at = -math.inf
        self._sender: asyncio.Task[None] | None = None

    @property
    def seconds_since_failure(self) -> float:
        """Seconds since the last batch that failed; infinite if none has."""
        return time.monotonic() - self._failed_at

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self._connection is not None and self._connection.is_connected

    @property
    def waiting(self) -> int:
        """Number of commands without an answer."""
        return len(self._queued) + self._in_flight

    async def call(self, *command: Any) -> Any:
        """Send a command and return its answer.

        Raises:
            ShardUnreachable: it was not sent.
            ShardConnectionFailed: it was sent, but it is unknown whether it was executed.
            ResponseError: Redis refused it.
        """
        future = asyncio.get_running_loop().create_future()
        self._queued.append(_QueuedCommand(hiredis.pack_command(command), future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._run())
        return await future

    async def disconnect(self) -> None:
        """Disconnect, so that the next command connects anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Wait for the answers to what was sent, for a few seconds at most, and disconnect."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=_CLOSE_SECONDS)
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        await self.disconnect()

    async def _run(self) -> None:
        try:
            while self._queued:
                await self._send(self._next_batch())
        finally:
            self._sender = None
            _fail(self._queued, ShardUnreachable(f"the connection to shard {self._name} was closed"))
            self._queued = []

    def _next_batch(self) -> list[_QueuedCommand]:
        size = 0
        for at, command in enumerate(self._queued):
            size += len(command.packed)
            if at and (size > _MAX_BATCH_BYTES or at >= _MAX_BATCH_COMMANDS):
                batch, self._queued = self._queued[:at], self._queued[at:]
                return batch
        batch, self._queued = self._queued, []
        return batch

    async def _send(self, batch: list[_QueuedCommand]) -> None:
        """Send a batch and answer its callers, whatever happens."""
        self._in_flight, began = len(batch), time.monotonic()
        try:
            connection = await self._connect()
            await self._round_trip(connection, batch)
        except ServiceError as error:
            self._failed_at = time.monotonic()
            if not isinstance(error, ShardUnreachable):
                self._on_commit(CommitStats(len(batch), time.monotonic() - began, is_failed=True))
            _fail(batch, error)
        except BaseException:  # cancelled: the server stops
            _fail(batch, self._outcome_unknown("the server stops"))
            raise
        finally:
            self._in_flight = 0

    async def _round_trip(self, connection: Connection, batch: list[_QueuedCommand]) -> None:
        try:
            began = time.monotonic()
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.send_packed_command([command.packed for command in batch], check_health=False)
                for command in batch:
                    _answer(command.future, await _read_answer(connection))
            self._on_commit(CommitStats(len(batch), time.monotonic() - began))
        except TimeoutError:
            # The queued commands have waited as long: they fail now, not after another timeout.
            self._fail_queued(ShardUnreachable(f"shard {self._name} at {self._endpoint} does not answer"))
            await self.disconnect()
            raise self._outcome_unknown(f"no answer within {ANSWER_SECONDS:g} s") from None
        except (RedisError, OSError) as error:
            await self.disconnect()
            raise self._outcome_unknown(str(error)) from error

    def _outcome_unknown(self, reason: str) -> ShardConnectionFailed:
        return ShardConnectionFailed(
            f"shard {self._name} at {self._endpoint} did not answer; the call may or may not have been executed: "
            f"{reason}"
        )

    async def _connect(self) -> Connection:
        """Return the open connection, or open one.

        Raises:
            ShardUnreachable: it could not be opened.
        """
        connection = self._connection
        if connection is not None:
            if connection.is_connected and not await connection.can_read():
                return connection
            await self.disconnect()  # readable without a pending command: the server has closed it
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._open()
        except (RedisError, OSError, TimeoutError) as error:
            unreachable = ShardUnreachable(
                f"shard {self._name} at {self._endpoint} cannot be reached: {str(error) or 'no answer'}"
            )
            self._fail_queued(unreachable)
            raise unreachable from error

    async def _open(self) -> Connection:
        connection = await self._endpoint.connection(CONNECT_SECONDS)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await self._handshake(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._connection = connection
        return connection

    def _fail_queued(self, error: ServiceError) -> None:
        queued, self._queued = self._queued, []
        _fail(queued, error)


async def _read_answer(connection: Connection) -> Any:
    """Return an answer; an error that Redis reports is one, too."""
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error


def _answer(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():  # cancelled
        return
    if isinstance(answer, ResponseError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _fail(commands: list[_QueuedCommand], error: ServiceError) -> None:
    for command in commands:
        if not command.future.done():
            command.future.set_exception(error)
