"""The client for asyncio programs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Self, TypeVar

import tenacity

from pinlater.client.async_bulk import AsyncBulkEnqueue
from pinlater.client.async_pool import AsyncPool
from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.handle import AsyncJobHandle
from pinlater.client.jobs import Batcher, EnqueueOptions, queue_of
from pinlater.client.retrying import Tries, worth_repeating
from pinlater.client.servers import ServerSet
from pinlater.client.tls import TlsFiles
from pinlater.client.tracing_hooks import sendings
from pinlater.errors import PinLaterError
from pinlater.jobs.job import Job
from pinlater.model.backoff import Backoff
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.operations import Call, Calls

T = TypeVar("T")


class AsyncClient(AsyncVerbs):
    """What ``Client`` is, for the tasks of an event loop: calls of many tasks run side by side.

    ::

        async with AsyncClient() as client:
            handle = await client.enqueue(SendWelcomeEmail(user_id=42))

    Cancelling a call closes its connection; whether the server carried the call out is then not known.

    Args:
        servers: see ``Client`` for this and the next four.
        source: name to call in.
        connect_timeout: seconds until a server counts as unreachable.
        timeout: seconds until a call fails with ``CallTimeout``, its retries included.
        retries: further tries of a call whose answer was lost; see ``Client`` for this and the next.
        patience: seconds for which a call is tried again that was certainly not carried out.
        tls: files for servers at ``tls://host:port``; None is the environment's ``PINLATER_TLS_CA``,
            ``PINLATER_TLS_CERT`` and ``PINLATER_TLS_KEY``.
        connections: connections at most; further calls wait for one, within their time-out.
        tracing: see ``Client``.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | ServerSet | None = None,
        *,
        source: str | None = None,
        connect_timeout: float = 2.0,
        timeout: float = 5.0,
        retries: int = 3,
        patience: float | None = None,
        tls: TlsFiles | None = None,
        connections: int = 64,
        tracing: bool = False,
    ) -> None:
        self._pool = AsyncPool(ServerSet.of(servers, tls), connect_timeout, connections)
        self._calls = Calls(source)
        self._timeout = timeout
        self._retries = retries
        self._patience = patience
        self._sending = sendings(is_on=tracing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    @property
    def source(self) -> str:
        """The name that this client calls in."""
        return self._calls.source

    async def enqueue(
        self,
        job: Job,
        *,
        queue: str | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        delay: float | None = None,
        run_at: datetime | float | None = None,
        status: str = "",
        unique: str | None = None,
        backoff: Backoff | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of the job, not of this call
        stall_after: float | None = None,
        give_up_after: float | None = None,
    ) -> AsyncJobHandle:
        """Do what ``Client.enqueue`` does."""
        target = queue_of(job, queue)
        with self._sending(target) as sending:
            options = EnqueueOptions(
                queue=queue,
                priority=priority,
                attempts=attempts,
                delay=delay,
                run_at=run_at,
                status=status,
                unique=unique,
                backoff=backoff,
                timeout=timeout,
                stall_after=stall_after,
                give_up_after=give_up_after,
                trace=sending.trace,
            )
            call = self._calls.enqueue_structs(target, [options.struct(job)])
            descriptor = (await self._execute(call))[0]
            sending.record_stored([target], 1, descriptor)
        return AsyncJobHandle(self, descriptor)

    async def enqueue_many(
        self,
        jobs: Iterable[Job] | AsyncIterable[Job],
        *,
        batch_size: int = 500,
        queue: str | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        delay: float | None = None,
        run_at: datetime | float | None = None,
        status: str = "",
        unique: Callable[[Job], str | None] | None = None,
        backoff: Backoff | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of the job, not of this call
        stall_after: float | None = None,
        give_up_after: float | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Do what ``Client.enqueue_many`` does; ``jobs`` may be an asynchronous iterable, too."""
        with self._sending(queue) as sending:
            options = EnqueueOptions(
                queue=queue,
                priority=priority,
                attempts=attempts,
                delay=delay,
                run_at=run_at,
                status=status,
                unique=unique,
                backoff=backoff,
                timeout=timeout,
                stall_after=stall_after,
                give_up_after=give_up_after,
                trace=sending.trace,
            )
            batcher = Batcher(options, batch_size)
            async with AsyncBulkEnqueue(self._pool, self._calls, self._execute, self._timeout, progress) as bulk:
                async for job in _each(jobs):
                    for batch in batcher.add(job):
                        await bulk.send(batch)
                for batch in batcher.rest():
                    await bulk.send(batch)
                await bulk.finish()
            sending.record_stored(batcher.queues, bulk.stored)
        return bulk.stored

    def handle(self, descriptor: str) -> AsyncJobHandle:
        """Do what ``Client.handle`` does."""
        return AsyncJobHandle(self, str(JobDescriptor.parse(descriptor)))

    async def _execute(self, call: Call[T]) -> T:
        deadline = time.monotonic() + self._timeout + call.wait
        try:
            return await self._attempt(call, deadline)
        except PinLaterError as error:
            if not worth_repeating(call, error):
                raise
            failure = error
        return await self._repeat(call, deadline, failure)

    async def _attempt(self, call: Call[T], deadline: float) -> T:
        connection = await self._pool.borrow(deadline - time.monotonic())
        try:
            if call.needs_memory:  # ask the very server that is to carry it out
                asking = self._calls.keeps_results()
                await connection.call(asking.method, asking.arguments, deadline - time.monotonic())
            reply = await connection.call(call.method, call.arguments, deadline - time.monotonic())
        finally:
            self._pool.give_back(connection)
        return call.convert(reply)

    async def _repeat(self, call: Call[T], deadline: float, failure: PinLaterError) -> T:
        """Go on after the first try has failed; tenacity is told of it, and waits before the second."""
        failures = [failure]
        tries = Tries(call, self._retries, self._patience, deadline)

        async def attempt() -> T:
            if failures:
                raise failures.pop()
            return await self._attempt(call, deadline)

        try:
            return await tenacity.AsyncRetrying(**tries.policy())(attempt)
        except PinLaterError as error:  # see Client._repeat
            verdict = tries.verdict(error)
            raise verdict.with_traceback(None) from verdict.__cause__


async def _each(jobs: Iterable[Job] | AsyncIterable[Job]) -> AsyncIterator[Job]:
    if isinstance(jobs, AsyncIterable):
        async for job in jobs:
            yield job
    else:
        for job in jobs:
            yield job
