"""Carry out the calls of the wire contract: dispatch, validate, enforce limits, and count errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from pinlater.errors import CountIncomplete, QueueNotFound, ServiceError, StaleClaims, UnknownError
from pinlater.protocol.codec import UNKNOWN_METHOD
from pinlater.protocol.conversion.jobs import enqueue_reply
from pinlater.protocol.conversion.queues import QUEUE_SETTINGS
from pinlater.protocol.messages import PinLaterEnqueueResponse
from pinlater.protocol.operations import OPERATIONS
from pinlater.server.api import rules
from pinlater.server.api.ack_call import AckCall
from pinlater.server.api.admin_password import AdminPassword
from pinlater.server.api.calls import CallRefused, CallReply, missing, require
from pinlater.server.api.checkpoint_rules import checkpoints
from pinlater.server.api.dequeue_call import DequeueCall
from pinlater.server.api.inspection import Inspection
from pinlater.server.api.job_messages import JobMessages
from pinlater.server.api.manual_changes import ManualChanges
from pinlater.server.api.offload import offload
from pinlater.server.api.overload import LoadShedder
from pinlater.server.api.queue_figures import QueueFigures
from pinlater.server.api.worker_reports import WorkerReports
from pinlater.server.backends.claim_names import ClaimNames
from pinlater.server.backends.records import Once, Settled
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.broker import Broker, Caller
from pinlater.server.config.settings import Settings
from pinlater.server.limits.stored_limits import StoredLimits
from pinlater.server.metrics import Metrics

log = logging.getLogger(__name__)

_ANSWER_RESERVE_BYTES = 4096
"""Bytes of a reply that are left for everything but jobs."""


class Service:
    """Carries out the calls of the wire contract."""

    def __init__(
        self,
        broker: Broker,
        limits: StoredLimits,
        *,
        load_shedder: LoadShedder,
        settings: Settings,
        claims: ClaimNames,
        metrics: Metrics,
        statistics: StatisticsBuffer,
    ) -> None:
        self._backend = backend = broker.backend
        self._broker = broker
        self._limits = limits
        self._load_shedder = load_shedder
        self._settings = settings
        self._metrics = metrics
        self._job_rules = rules.JobRules(settings.priority_levels, settings.max_body_bytes)
        self._password = AdminPassword(settings.admin_password_hash)
        max_bytes = settings.max_frame_bytes - _ANSWER_RESERVE_BYTES
        inspection = Inspection(
            backend, broker, settings.priority_levels, max_bytes=max_bytes, max_wait_ms=settings.max_wait_ms
        )
        acks = AckCall(broker, metrics, settings.max_body_bytes, statistics)
        dequeues = DequeueCall(
            broker,
            acks,
            limits,
            load_shedder=load_shedder,
            settings=settings,
            claims=claims,
            metrics=metrics,
            max_bytes=max_bytes,
        )
        changes = ManualChanges(broker, settings.priority_levels)
        figures = QueueFigures(backend)
        reports = WorkerReports(backend, max_bytes)
        job_messages = JobMessages(broker, settings, metrics, max_bytes)
        self._handlers: dict[str, Callable[[Any, Caller], Awaitable[Any]]] = {
            "createQueue": self._create_queue,
            "deleteQueue": self._delete_queue,
            "getQueueNames": lambda _, __: backend.queue_names(),
            "getQueueSettings": self._queue_settings,
            "changeQueueSettings": self._change_queue_settings,
            "getOldestDueTimestamps": figures.oldest_due,
            "enqueueJobs": self._enqueue,
            "importJobs": self._import_jobs,
            "dequeueJobs": dequeues.answer,
            "ackDequeuedJobs": acks.answer,
            "checkpointJobs": self._checkpoint,
            "checkpointAndKeep": self._checkpoint,
            "releaseClaims": self._release_claims,
            "cancelJobs": job_messages.cancel,
            "sendMessage": job_messages.send,
            "readMessages": job_messages.read,
            "getCancelledJobs": job_messages.cancelled,
            "lookupJobs": inspection.lookup,
            "getJobCount": inspection.count,
            "scanJobs": inspection.scan,
            "retryFailedJobs": partial(self._change, changes.retry_failed),
            "runJobsNow": partial(self._change, changes.run_now),
            "scheduleJobs": partial(self._change, changes.schedule),
            "deleteJobs": partial(self._change, inspection.delete),
            "keepsResults": _answer_nothing,
            "reportWorker": reports.store,
            "getWorkers": reports.read,
            "getStatistics": figures.statistics,
            "getFailureGroups": figures.failure_groups,
        }

    @property
    def methods(self) -> frozenset[str]:
        """The methods of the calls that it carries out."""
        return frozenset(self._handlers)

    async def call(self, method: str, arguments: Any, caller: Caller) -> CallReply:
        """Carry out one call; its handler returns the reply, or a ``CallReply`` if the call can be undone.

        Raises:
            ServiceError: to answer with the declared exception.
            CallRefused: to answer with a Thrift-level exception.
        """
        handler = self._handlers.get(method)
        if handler is None:
            raise CallRefused(UNKNOWN_METHOD, f"there is no method {method[:100]!r}")
        started, slept = time.perf_counter(), caller.slept_seconds
        try:
            require(arguments.context, "context")
            arguments.context.source = rules.bounded_source(arguments.context.source)
            if OPERATIONS[method].takes_request:
                require(arguments.request, "request")
            reply = await handler(arguments, caller)
            return reply if isinstance(reply, CallReply) else CallReply(reply)
        except (StaleClaims, CountIncomplete):  # requested by the client, not counted as errors
            raise
        except ServiceError as error:
            self._metrics.errors.add((method, error.code_name))
            raise
        except CallRefused:
            raise
        except Exception as error:
            self._metrics.errors.add((method, UnknownError.code_name))
            log.exception("%s failed", method)
            raise UnknownError(f"{method} failed in the server: {type(error).__name__}: {error}") from error
        finally:
            seconds = time.perf_counter() - started - (caller.slept_seconds - slept)
            self._metrics.call_seconds.observe(method, seconds if seconds > 0 else 0.0)

    # Queues

    async def _create_queue(self, arguments: Any, _: Caller) -> None:
        if arguments.name is None:
            raise missing("name")
        rules.check_queue_name(arguments.name)
        await self._backend.create_queue(arguments.name)

    async def _delete_queue(self, arguments: Any, _: Caller) -> None:
        await self._password.check(arguments.password)
        if arguments.name is None:
            raise missing("name")
        rules.check_queue_name(arguments.name)
        await self._broker.delete_queue(arguments.name)
        await self._limits.refresh()
        self._metrics.forget_queue(arguments.name)

    async def _queue_settings(self, _: Any, __: Caller) -> dict[str, Any]:
        return {name: QUEUE_SETTINGS.struct(one) for name, one in (await self._limits.effective_settings()).items()}

    async def _change_queue_settings(self, arguments: Any, _: Caller) -> None:
        request = arguments.request
        rules.check_queue_name(request.queueName)
        await self._limits.change(request.queueName, rules.queue_change(request))

    # The life of jobs

    async def _enqueue(self, arguments: Any, _: Caller) -> PinLaterEnqueueResponse:
        request = arguments.request
        queue, count = request.queueName, len(request.jobs)
        rules.check_queue_name(queue)
        jobs = await offload(count, self._job_rules.new_jobs, request.jobs)
        once = self._key(arguments)
        self._load_shedder.check_enqueue()
        descriptors = await self._store_jobs(self._broker.enqueue, queue, jobs, once)
        if jobs:
            self._metrics.jobs_enqueued.add(queue, count)
            self._metrics.job_body_bytes.observe(queue, len(jobs[0].body), count)
        return enqueue_reply(descriptors)

    async def _import_jobs(self, arguments: Any, _: Caller) -> PinLaterEnqueueResponse:
        request = arguments.request
        queue = request.queueName
        rules.check_queue_name(queue)
        jobs = await offload(len(request.jobs), self._job_rules.imported_jobs, request.jobs)
        descriptors = await self._store_jobs(self._broker.import_jobs, queue, jobs, self._key(arguments))
        if jobs:
            self._metrics.jobs_imported.add(queue, len(jobs))
        return enqueue_reply(descriptors)

    async def _store_jobs(
        self, store: Callable[..., Awaitable[list[str]]], queue: str, jobs: Sequence[Any], once: Once
    ) -> list[str]:
        """Store jobs; create the queue for its first jobs, unless the settings forbid it."""
        try:
            return await store(queue, jobs, once=once)
        except QueueNotFound:
            if not self._settings.queue_auto_create:
                raise
        await self._backend.create_queue(queue)
        log.info("queue %s was created for its first jobs", queue)
        return await store(queue, jobs, once=once)

    async def _checkpoint(self, arguments: Any, _: Caller) -> None:
        request = arguments.request
        rules.check_queue_name(request.queueName)
        source, max_body_bytes = arguments.context.source, self._settings.max_body_bytes
        items = await offload(len(request.requests), checkpoints, request.requests, source, max_body_bytes)
        if items:
            settled = await self._broker.checkpoint(request.queueName, items)
            self._metrics.checkpoints.add(request.queueName, settled.changed)
            self._metrics.checkpoint_noops.add(request.queueName, settled.stale)
            if any(item.claim is not None for item in items):
                self._metrics.stale_checkpoints.add(request.queueName, settled.stale)
            if (settled.lost or settled.cancelled) and request.tellStale:
                raise _stale(settled)

    async def _release_claims(self, arguments: Any, _: Caller) -> int:
        request = arguments.request
        rules.check_queue_name(request.queueName)
        released = await self._broker.release(request.queueName, request.claimSource)
        self._metrics.claims_released.add(request.queueName, released)
        return released

    async def _change(self, change: Callable[[Any, Once], Awaitable[int]], arguments: Any, _: Caller) -> int:
        """Carry out a manual change of jobs; if the call is repeated, only once."""
        return await change(arguments, self._key(arguments))

    def _key(self, arguments: Any) -> Once:
        """Return the key by which the store recognises the call if it is repeated; None if it has none."""
        return rules.idempotency_key(arguments.context, self._settings.idempotency_ttl_seconds)


def _stale(settled: Settled) -> StaleClaims:
    lost, cancelled = [str(job) for job in settled.lost], [str(job) for job in settled.cancelled]
    return StaleClaims(
        f"{len(lost)} jobs are not held as the checkpoint says: {lost[0]}"
        if lost
        else f"{len(cancelled)} jobs are asked to stop: {cancelled[0]}",
        lost,
        cancelled,
    )


async def _answer_nothing(_: Any, __: Caller) -> None:
    """Answer ``keepsResults``; a server that does not keep results does not know the call."""
