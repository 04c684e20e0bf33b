"""The client for blocking programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Self, TypeVar

import tenacity

from pinlater.client.bulk import BulkEnqueue
from pinlater.client.handle import JobHandle
from pinlater.client.jobs import Batcher, EnqueueOptions, queue_of
from pinlater.client.pool import Pool
from pinlater.client.retrying import Tries, worth_repeating
from pinlater.client.servers import ServerSet
from pinlater.client.tls import TlsFiles
from pinlater.client.tracing_hooks import sendings
from pinlater.client.verbs import Verbs
from pinlater.errors import PinLaterError
from pinlater.jobs.job import Job
from pinlater.model.backoff import Backoff
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.operations import Call, Calls

T = TypeVar("T")


class Client(Verbs):
    """Talks to the servers of a set; one client serves all threads of a program, and survives a fork.

    ::

        with Client() as client:
            handle = client.enqueue(SendWelcomeEmail(user_id=42), delay=60)

    A call that fails in a way that may pass is tried again, with growing, jittered waits of a quarter of a second at
    most. What was certainly not carried out, as no server could be reached, it was stopping, or no shard of the store
    answered, is tried until ``timeout`` is over: so a server that restarts fails no call. When nobody knows whether it
    was carried out, it is tried ``retries`` times more, and only if a second time does no harm (so never a dequeue), or
    if the server knows it again: enqueues, imports, retries and deletions carry a key under which the store keeps their
    result for some minutes, so they are carried out once. ``timeout`` bounds all tries together, so that no call hangs.

    Args:
        servers: ``"host:port,tls://host:port,unix:/path"``, a list of these, ``"file:/path"`` (one a line, followed
            when it changes) or a ``ServerSet``; None is the environment's ``PINLATER_SERVERS`` or 127.0.0.1:9010.
        source: name to call in, part of every claim; None is ``<program>:<host>:<pid>``.
        connect_timeout: seconds until a server counts as unreachable.
        timeout: seconds until a call fails with ``CallTimeout``, its retries included.
        retries: further tries of a call whose answer was lost. With 0, a call that any server has answered or may have
            carried out is not tried again.
        patience: seconds for which a call is tried again that was certainly not carried out; None: until ``timeout``
            is over. A program that a person waits for may want to say sooner that no server is there.
        tracing: make a span of each ``enqueue`` and ``enqueue_many``, and let the jobs carry its context; see
            ``pinlater.tracing``.
        tls: files for servers at ``tls://host:port``; None is the environment's ``PINLATER_TLS_CA``,
            ``PINLATER_TLS_CERT`` and ``PINLATER_TLS_KEY``.

    Raises:
        ConfigError: ``servers`` cannot be read; the message says what to write.
        ImportError: ``tracing`` needs ``pinlater[otel]``.
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
        tracing: bool = False,
        tls: TlsFiles | None = None,
    ) -> None:
        self._pool = Pool(ServerSet.of(servers, tls), connect_timeout)
        self._calls = Calls(source)
        self._timeout = timeout
        self._retries = retries
        self._patience = patience
        self._sending = sendings(is_on=tracing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    @property
    def source(self) -> str:
        """The name that this client calls in."""
        return self._calls.source

    def enqueue(
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
        timeout: float | None = None,
        stall_after: float | None = None,
        give_up_after: float | None = None,
    ) -> JobHandle:
        """Store a job; once this returns, it is on durable storage.

        Args:
            job: what to do.
            queue: queue to go to; this and the next two are the job class's unless given.
            priority: 1 is served first.
            attempts: attempts in all.
            delay: seconds from now before which it does not run.
            run_at: or that moment itself: epoch seconds, or a datetime (a naive one is local time).
            status: text to begin its custom status with.
            unique: a key of at most 200 characters. While a job of the queue with the same one waits or runs, this one
                is not stored, and the handle is that of the other. A server of the original knows no keys.
            backoff: ``Constant``, ``Linear`` or ``Exponential``, instead of the ``backoff`` of the class; this and the
                next three travel in the body.
            timeout: seconds after which ``JobTimeout`` is raised in the running job; instead of the ``timeout`` of the
                class.
            stall_after: seconds without a sign of progress after which ``JobStalled`` is raised in it; likewise.
            give_up_after: seconds from now after which no attempt begins any more; likewise.

        Raises:
            ValueError: an option is out of its range.
            BodyInvalid: a field of the job holds something that JSON cannot carry, or it is a ``RawJob`` and has a
                ``backoff`` or time limit.
            QueueNotFound: it is not there, and the server has ``QUEUE_AUTO_CREATE=false``; create it first.
            EnqueueRejected: the body is too large for the server, or the key too long.
            CallError: no answer came; the job may be stored or not.
        """
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
            descriptor = self._execute(call)[0]
            sending.record_stored([target], 1, descriptor)
        return JobHandle(self, descriptor)

    def enqueue_many(
        self,
        jobs: Iterable[Job],
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
        timeout: float | None = None,
        stall_after: float | None = None,
        give_up_after: float | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Store many jobs, from any iterable, in batches; memory stays flat. Return how many.

        Several batches are under way at once; each is stored whole or not at all. If an error ends it, the
        batches before are stored, and a note on the error says how many jobs were confirmed.

        Args:
            jobs: what to do.
            batch_size: jobs in one call, at most.
            queue: see ``enqueue`` for this and the next ten.
            priority: of all jobs.
            attempts: of all jobs.
            delay: of all jobs, counted from this call.
            run_at: of all jobs.
            status: of all jobs.
            unique: returns the key of a job, or None, see ``enqueue``; such as ``lambda job: f"bill {job.number}"``.
                Jobs that are there already count as stored.
            backoff: of all jobs.
            timeout: of all jobs.
            stall_after: of all jobs.
            give_up_after: of all jobs.
            progress: is called with the number of jobs stored so far after every batch.

        Raises:
            Exception: what ``enqueue`` raises.
        """
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
            with BulkEnqueue(self._pool, self._calls, self._execute, self._timeout, progress) as bulk:
                for job in jobs:
                    for batch in batcher.add(job):
                        bulk.send(batch)
                for batch in batcher.rest():
                    bulk.send(batch)
                bulk.finish()
            sending.record_stored(batcher.queues, bulk.stored)
        return bulk.stored

    def handle(self, descriptor: str) -> JobHandle:
        """Return the handle of a job that was enqueued before, by this program or another; asks no server.

        Args:
            descriptor: of the job, as ``JobHandle.descriptor`` and ``pinlater lookup`` have it.

        Raises:
            UnknownError: it is malformed.
        """
        return JobHandle(self, str(JobDescriptor.parse(descriptor)))

    def _execute(self, call: Call[T]) -> T:
        deadline = time.monotonic() + self._timeout + call.wait
        try:
            return self._attempt(call, deadline)
        except PinLaterError as error:
            if not worth_repeating(call, error):
                raise
            failure = error
        return self._repeat(call, deadline, failure)

    def _attempt(self, call: Call[T], deadline: float) -> T:
        connection = self._pool.borrow(deadline - time.monotonic())
        try:
            if call.needs_memory:  # ask the very server that is to carry it out
                asking = self._calls.keeps_results()
                connection.call(asking.method, asking.arguments, deadline - time.monotonic())
            reply = connection.call(call.method, call.arguments, deadline - time.monotonic())
        finally:
            self._pool.give_back(connection)
        return call.convert(reply)

    def _repeat(self, call: Call[T], deadline: float, failure: PinLaterError) -> T:
        """Go on after the first try has failed; tenacity is told of it, and waits before the second."""
        failures = [failure]
        tries = Tries(call, self._retries, self._patience, deadline)

        def attempt() -> T:
            if failures:
                raise failures.pop()
            return self._attempt(call, deadline)

        try:
            return tenacity.Retrying(**tries.policy())(attempt)
        except PinLaterError as error:  # tenacity's frames would hide the caller's line
            verdict = tries.verdict(error)
            raise verdict.with_traceback(None) from verdict.__cause__
