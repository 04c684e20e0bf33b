"""A connection to a shard that many calls share: what arrives while a batch is on its way goes with the next one.

Redis carries out a batch without a pause, and with ``appendfsync always`` syncs once for all of it.
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
from pinlater.server.backends.redis.endpoint import Place
from pinlater.server.backends.sharded import ShardUnreachable

log = logging.getLogger(__name__)

CONNECT_SECONDS = 2.0
"""For opening a connection, Sentinel and log-in included."""

ANSWER_SECONDS = 4.0
"""For a batch; a shard that takes longer is taken for dead, and the connection closed."""

_MOST_BYTES = 4_000_000
_MOST_CALLS = 500
"""In a batch; a single call may be larger."""

_FAREWELL_SECONDS = 5.0

Command = Callable[..., Awaitable[Any]]
"""Sends one command; returns what Redis answers."""

Greeting = Callable[[Connection], Awaitable[None]]
"""What is done first on every new connection; an error closes it."""


class _Call(NamedTuple):
    command: bytes
    future: asyncio.Future[Any]


class Link:
    """Opens a connection when it is first needed, and another one whenever that fails.

    Args:
        name: of the shard, for people.
        place: where it is.
        greet: see ``Greeting``.
        on_commit: is told of each batch.
    """

    def __init__(
        self, name: str, place: Place, greet: Greeting, on_commit: Callable[[CommitStats], None] = lambda _: None
    ) -> None:
        self._name = name
        self._place = place
        self._greet = greet
        self._on_commit = on_commit
        self._connection: Connection | None = None
        self._waiting: list[_Call] = []
        self._under_way = 0
        self._failed_at = -math.inf
        self._pump: asyncio.Task[None] | None = None

    @property
    def seconds_since_failure(self) -> float:
        """How long the shard has answered whenever it was asked; infinite when it always has."""
        return time.monotonic() - self._failed_at

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None and self._connection.is_connected

    @property
    def waiting(self) -> int:
        """Calls that have no result yet."""
        return len(self._waiting) + self._under_way

    async def call(self, *command: Any) -> Any:
        """Send a command; return what Redis answers.

        Raises:
            ShardUnreachable: it was not sent.
            ShardConnectionFailed: it was sent, and nobody knows whether it was carried out.
            ResponseError: Redis refused it.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(hiredis.pack_command(command), future))
        if self._pump is None:
            self._pump = asyncio.create_task(self._run())
        return await future

    async def drop(self) -> None:
        """Let the next call go over a new connection: this one leads to the wrong server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Finish what was submitted, as far as the shard answers."""
        if self._pump is not None:
            await asyncio.wait([self._pump], timeout=_FAREWELL_SECONDS)
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        await self.drop()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._exchange(self._next_batch())
        finally:
            self._pump = None
            _fail(self._waiting, ShardUnreachable(f"the connection to shard {self._name} was closed"))
            self._waiting = []

    def _next_batch(self) -> list[_Call]:
        size = 0
        for at, call in enumerate(self._waiting):
            size += len(call.command)
            if at and (size > _MOST_BYTES or at >= _MOST_CALLS):
                batch, self._waiting = self._waiting[:at], self._waiting[at:]
                return batch
        batch, self._waiting = self._waiting, []
        return batch

    async def _exchange(self, batch: list[_Call]) -> None:
        self._under_way, began = len(batch), time.monotonic()
        try:
            connection = await self._connected()
            await self._converse(connection, batch)
        except ServiceError as error:
            self._failed_at = time.monotonic()
            if not isinstance(error, ShardUnreachable):
                self._on_commit(CommitStats(len(batch), time.monotonic() - began, is_failed=True))
            _fail(batch, error)
        except BaseException:  # cancelled: the server stops
            _fail(batch, self._lost("the server stops"))
            raise
        finally:
            self._under_way = 0

    async def _converse(self, connection: Connection, batch: list[_Call]) -> None:
        try:
            began = time.monotonic()
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.send_packed_command([call.command for call in batch], check_health=False)
                for call in batch:
                    _answer(call.future, await _read(connection))
            self._on_commit(CommitStats(len(batch), time.monotonic() - began))
        except TimeoutError:
            # Those that wait have waited for as long: they learn it now, not after another round.
            waiting, self._waiting = self._waiting, []
            _fail(waiting, ShardUnreachable(f"shard {self._name} at {self._place} does not answer"))
            await self.drop()
            raise self._lost(f"no answer within {ANSWER_SECONDS:g} s") from None
        except (RedisError, OSError) as error:
            await self.drop()
            raise self._lost(str(error)) from error

    def _lost(self, reason: str) -> ShardConnectionFailed:
        return ShardConnectionFailed(
            f"shard {self._name} at {self._place} did not answer, and may or may not have done it: {reason}"
        )

    async def _connected(self) -> Connection:
        """Return a connection that was alive a moment ago.

        Raises:
            ShardUnreachable: none can be had.
        """
        connection = self._connection
        if connection is not None:
            if connection.is_connected and not await connection.can_read():
                return connection
            await self.drop()  # closed from the other side, while nobody was waiting for anything
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._open()
        except (RedisError, OSError, TimeoutError) as error:
            waiting, self._waiting = self._waiting, []
            unreachable = ShardUnreachable(
                f"shard {self._name} at {self._place} cannot be reached: {str(error) or 'no answer'}"
            )
            _fail(waiting, unreachable)
            raise unreachable from error

    async def _open(self) -> Connection:
        connection = await self._place.connection(CONNECT_SECONDS)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await self._greet(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._connection = connection
        return connection


async def _read(connection: Connection) -> Any:
    """Return an answer; a refusal is one, too."""
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


def _fail(calls: list[_Call], error: ServiceError) -> None:
    for call in calls:
        if not call.future.done():
            call.future.set_exception(error)
