"""Base of the clients: enqueues jobs, makes calls, and retries those that failed for a transient reason."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar, Unpack, overload

import tenacity

from pinlater.client.async_bulk import (
    AsyncBulkEnqueue,
    each,  # async only
)
from pinlater.client.async_handle import AsyncJobHandle
from pinlater.client.async_pool import AsyncPool
from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.batch_jobs import batch_job, parts, queue_of_batch
from pinlater.client.batches import Batcher, encoder_of_many
from pinlater.client.jobs import encoder, target_queue
from pinlater.client.retrying import CallRetries, is_retryable, shorten_wait
from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.client.tracing_hooks import EnqueueTracer
from pinlater.errors import CallTimeout, PinLaterError, ServerUnavailable
from pinlater.jobs.batch import ALL_STORED, Batch, BatchOutcome
from pinlater.jobs.batch_size import check_batch_size
from pinlater.jobs.enqueue_options import CallOptions, EnqueueManyOptions, EnqueueOptions
from pinlater.jobs.job import Job, check_class
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.idempotency import may_have_been_carried_out
from pinlater.protocol.operations import Call, Calls

R = TypeVar("R")
T = TypeVar("T")

_INCOMPLETE = "the batch could not be stored completely"


class AsyncBaseClient(AsyncVerbs):
    """Enqueues jobs and makes calls on pooled connections."""

    _pool: AsyncPool
    _calls: Calls
    _timeout: float
    _retries: int
    _patience: float | None
    _trace_enqueue: EnqueueTracer

    @property
    def source(self) -> str:
        """The name that this client sends with its calls."""
        return self._calls.source

    def _now(self) -> float:
        """Return the epoch seconds from which delays count."""
        return time.time()

    async def enqueue(self, job: Job[R], **options: Unpack[EnqueueOptions]) -> AsyncJobHandle[R]:
        """Enqueue a job; when this returns, the job is on durable storage.

        Args:
            job: the job.
            options: keywords such as ``delay=60``; ``EnqueueOptions`` lists them all.

        Raises:
            ValueError: an option is out of its range.
            TypeError: an option does not exist or has the wrong type.
            BodyInvalid: the value of a field cannot be written as JSON, or the job is a ``RawJob`` with ``backoff`` or
                time limits.
            QueueNotFound: the queue does not exist, and the server has ``QUEUE_AUTO_CREATE=false``; create it first.
            EnqueueRejected: the body is too large for the server, or the key is too long.
            CallError: no answer came; the job may or may not be stored.
        """
        target = target_queue(job, options.get("queue"))
        with self._trace_enqueue(target) as trace:
            call = self._calls.enqueue_structs(target, [encoder(options, trace.trace, self._now).struct(job)])
            descriptor = (await self._execute(call))[0]
            trace.record_stored([target], 1, descriptor)
        return AsyncJobHandle(self, descriptor, type(job))

    async def enqueue_many(
        self,
        jobs: Iterable[Job] | AsyncIterable[Job],
        *,
        batch_size: int = 500,
        progress: Callable[[int], object] | None = None,
        **options: Unpack[EnqueueManyOptions],
    ) -> int:
        """Enqueue many jobs, from any iterable, in batches and constant memory; return how many.

        Several batches are in flight at once; each is stored whole or not at all. If an error ends the call, the
        batches before the failed one are stored, up to three after it may be stored, and a note on the error says how
        many jobs were confirmed.

        Args:
            jobs: the jobs.
            batch_size: maximum number of jobs in a call.
            progress: called after every batch with the number of jobs stored so far.
            options: keywords for all jobs; ``EnqueueManyOptions`` and ``EnqueueOptions`` list them. ``delay`` counts
                from this call.

        Raises:
            Exception: as in ``enqueue``.
        """
        with self._trace_enqueue(options.get("queue")) as trace:
            batcher = Batcher(encoder_of_many(options, trace.trace, self._now), batch_size)
            async with AsyncBulkEnqueue(self._pool, self._calls, self._execute, self._timeout, progress) as bulk:
                async for job in each(jobs):
                    for batch in batcher.add(job):
                        await bulk.send(batch)
                for batch in batcher.rest():
                    await bulk.send(batch)
                await bulk.finish()
            trace.record_stored(batcher.queues, bulk.stored)
        return bulk.stored

    async def batch(
        self,
        jobs: Iterable[Job],
        *,
        then: Job | None = None,
        on_failure: Job | None = None,
        batch_queue: str | None = None,
        batch_size: int = 500,
        **options: Unpack[CallOptions],
    ) -> AsyncJobHandle[BatchOutcome]:
        """Enqueue jobs as a batch, with another job to enqueue when all of them have ended.

        The batch is itself a job, which waits for the others without occupying a process. The ``result`` of its handle
        says how they ended; its ``cancel`` cancels them as well, and neither ``then`` nor ``on_failure`` is enqueued.
        Another program gets the handle by ``client.handle(descriptor, Batch)``, with ``pinlater.client.Batch``.

        If the program is killed before this returns, or no server or store can be reached any more (``CallError``,
        ``ServerError``), the batch may wait for jobs that were never stored; it fails after a day. A job that calls the
        others (``context.call_all``) goes on instead.

        Args:
            jobs: the jobs, of any classes; a single one is enough.
            then: job to enqueue when all have succeeded.
            on_failure: job to enqueue when all have ended and some have failed for good, were cancelled or deleted,
                whatever the cause: an error, a crash, an expired lease, a person.
            batch_queue: queue of the batch's own job; None: that of ``then``, of ``on_failure`` or of the jobs.
            batch_size: maximum number of jobs in a call.
            options: keywords for all of the jobs, such as ``attempts=1``; ``CallOptions`` lists them. They do not
                apply to ``then`` and ``on_failure``.

        Raises:
            ValueError: all jobs are of class ``RawJob``, and no ``batch_queue`` is given; or there is nothing to
                enqueue at all; or ``batch_size`` is below 1.
            Exception: as in ``enqueue``; jobs of the batch that were stored are cancelled if a server can be reached.
        """
        check_batch_size(batch_size)
        encoder(options)  # a wrong option is refused before anything is stored
        children = list(jobs)
        target = queue_of_batch(batch_queue, (then, on_failure), children)
        handle = await self._enqueue_batch_job(batch_job(len(children), then, on_failure), target)
        try:
            with self._trace_enqueue(None) as trace:
                for part in parts(children, handle.descriptor, encoder(options, trace.trace, self._now), batch_size):
                    await self._execute(self._calls.enqueue_structs(part.queue, part.jobs))
            if children:
                await handle.send(ALL_STORED, id=ALL_STORED)
        # Where the coroutine was dropped, nothing can be awaited any more.  # async only
        except GeneratorExit:  # async only
            raise  # async only
        except BaseException:
            with contextlib.suppress(PinLaterError):
                await asyncio.shield(handle.cancel(_INCOMPLETE))
            raise
        return handle

    async def _enqueue_batch_job(self, job: Batch, queue: str) -> AsyncJobHandle[BatchOutcome]:
        """Enqueue the job that waits for the jobs of a batch; if that is interrupted, cancel the job."""
        with self._trace_enqueue(queue) as trace:
            call = self._calls.enqueue_structs(queue, [encoder({}, trace.trace, self._now).struct(job)])
            try:
                descriptor = (await self._execute(call))[0]
            except (PinLaterError, GeneratorExit):
                raise
            except BaseException:
                await asyncio.shield(self._cancel_unanswered(call))
                raise
            trace.record_stored([queue], 1, descriptor)
        return AsyncJobHandle(self, descriptor, Batch)

    async def _cancel_unanswered(self, call: Call[list[str]]) -> None:
        """Cancel the job of an enqueue that was interrupted: it may be stored, and repeating the call finds it."""
        may_have_been_carried_out(call.arguments)
        with contextlib.suppress(PinLaterError):
            descriptor = (await self._attempt(call, time.monotonic() + self._timeout))[0]
            await AsyncJobHandle(self, descriptor).cancel(_INCOMPLETE)

    @overload
    def handle(self, descriptor: str) -> AsyncJobHandle[Any]: ...

    @overload
    def handle(self, descriptor: str, kind: type[Job[R]]) -> AsyncJobHandle[R]: ...

    def handle(self, descriptor: str, kind: type[Job[Any]] | None = None) -> AsyncJobHandle[Any]:
        """Return the handle of a job that this or another program has enqueued; no server is asked.

        Args:
            descriptor: descriptor of the job, as in ``JobHandle.descriptor`` and ``pinlater lookup``.
            kind: class of the job; the handle then returns results in the type it declares. None: in JSON's types.

        Raises:
            UnknownError: the descriptor is malformed.
            TypeError: ``kind`` is no job class, but for example a job.
        """
        if kind is not None:
            check_class(kind)
        return AsyncJobHandle(self, str(JobDescriptor.parse(descriptor)), kind)

    async def _execute(self, call: Call[T]) -> T:
        deadline = time.monotonic() + self._timeout + call.wait
        try:
            return await self._attempt(call, deadline)
        except PinLaterError as error:
            if not is_retryable(call, error):
                raise
            failure = error
        return await self._repeat(call, deadline, failure)

    async def _attempt(self, call: Call[T], deadline: float) -> T:
        connection = await self._pool.borrow(deadline - time.monotonic())
        try:
            if call.needs_memory:  # ask the same server that is to carry it out
                asking = self._calls.keeps_results()
                await connection.call(asking.method, asking.arguments, deadline - time.monotonic())
            reply = await connection.call(call.method, call.arguments, deadline - time.monotonic())
        except (CallTimeout, *STORE_OUT_OF_REACH):  # the server hangs, or is cut off from its store
            self._pool.leave(connection)
            raise
        except ServerUnavailable:
            self._pool.note_loss(connection)
            raise
        finally:
            self._pool.give_back(connection)
        return call.convert(reply)

    async def _repeat(self, call: Call[T], deadline: float, failure: PinLaterError) -> T:
        """Retry after the first try failed; tenacity is given that failure first, so it waits before the second try."""
        failures = [failure]
        retries = CallRetries(call, self._retries, self._patience, deadline)

        async def attempt() -> T:
            if failures:
                raise failures.pop()
            shorten_wait(call, deadline - self._timeout - time.monotonic())  # to what is left of it
            return await self._attempt(call, deadline)

        try:
            return await tenacity.AsyncRetrying(**retries.policy())(attempt)
        except PinLaterError as error:  # tenacity's frames would hide the caller's line
            final = retries.final_error(error)
            raise final.with_traceback(None) from final.__cause__
