"""``bulk`` for asyncio: enqueues batch after batch on one connection, without waiting for each answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Self

from pinlater.client.async_connection import AsyncConnection
from pinlater.client.async_pool import AsyncPool
from pinlater.client.batches import QueueBatch
from pinlater.client.bulk import MAX_IN_FLIGHT
from pinlater.client.retrying import is_retryable
from pinlater.errors import CallError, CallTimeout, PinLaterError
from pinlater.jobs.job import Job
from pinlater.model.plural import plural
from pinlater.protocol.operations import Call, Calls

_Sent = tuple[Call[list[str]], asyncio.Future[Any] | None]


class AsyncBulkEnqueue:
    """``BulkEnqueue`` for asyncio."""

    def __init__(
        self,
        pool: AsyncPool,
        calls: Calls,
        execute: Callable[[Call[list[str]]], Awaitable[list[str]]],
        timeout: float,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._pool = pool
        self._calls = calls
        self._execute = execute
        self._timeout = timeout
        self._progress = progress
        self._connection: AsyncConnection | None = None
        self._window: deque[_Sent] = deque()
        self.stored = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._drop_connection()
        if error is not None:
            error.add_note(f"{plural(self.stored)} stored before this")

    async def send(self, batch: QueueBatch) -> None:
        """Send a batch; while four answers are outstanding, wait for the oldest one first."""
        while len(self._window) >= MAX_IN_FLIGHT:
            await self._settle()
        call = self._calls.enqueue_structs(batch.queue, batch.jobs)
        reply = None
        try:
            reply = (await self._connected()).send(call.method, call.arguments)
        except CallError as error:
            if not is_retryable(call, error):
                raise
        self._window.append((call, reply))

    async def finish(self) -> None:
        """Wait for all answers."""
        while self._window:
            await self._settle()

    async def _settle(self) -> None:
        """Take the oldest answer; if that call got none, send it again by itself, with retries."""
        call, reply = self._window[0]
        try:
            descriptors = await self._store_alone(call) if reply is None else call.convert(await self._answer(reply))
        except PinLaterError as error:
            if reply is None or not is_retryable(call, error):
                raise
            if isinstance(error, CallTimeout) and self._connection is not None:  # the server hangs
                self._pool.leave(self._connection)
            descriptors = await self._store_alone(call)
        self._window.popleft()
        self._note(descriptors)

    async def _store_alone(self, call: Call[list[str]]) -> list[str]:
        """Send a call again by itself, after giving back the connection: the pool may have no other to lend."""
        if replies := [reply for _, reply in self._window if reply is not None]:
            await asyncio.wait(replies, timeout=self._timeout)
        self._drop_connection()
        return await self._execute(call)

    async def _answer(self, reply: asyncio.Future[Any]) -> Any:
        """Return the reply to a call that was sent; if its connection was given up, it has come or failed already."""
        return await (reply if self._connection is None else self._connection.wait_for(reply, self._timeout))

    async def _connected(self) -> AsyncConnection:
        """Return the connection, or a new one if it was lost; its calls in flight have then failed."""
        if self._connection is not None and not self._connection.is_open:
            self._drop_connection()
        if self._connection is None:
            self._connection = await self._pool.borrow(self._timeout)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._pool.give_back(self._connection)
            self._connection = None

    def _note(self, descriptors: list[str]) -> None:
        self.stored += len(descriptors)
        if self._progress is not None:
            self._progress(self.stored)


async def each(jobs: Iterable[Job] | AsyncIterable[Job]) -> AsyncIterator[Job]:
    """Yield the jobs of an iterable or asynchronous iterable."""
    if isinstance(jobs, AsyncIterable):
        async for job in jobs:
            yield job
    else:
        for job in jobs:
            yield job
