"""Carry out dequeues: validate the request, claim jobs, and build the reply."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from pinlater.errors import DequeueRateLimited, UnknownError
from pinlater.model.attempts import DequeuedJob
from pinlater.protocol.conversion.jobs import dequeue_reply
from pinlater.server.api import rules
from pinlater.server.api.ack_call import AckCall
from pinlater.server.api.calls import CallReply
from pinlater.server.api.offload import offload
from pinlater.server.api.overload import LoadShedder
from pinlater.server.backends.claim_names import ClaimNames
from pinlater.server.backends.records import Claim, covered
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest, DequeueResult
from pinlater.server.config.settings import Settings
from pinlater.server.limits.stored_limits import StoredLimits
from pinlater.server.metrics import Metrics

log = logging.getLogger(__name__)

MAX_DEQUEUE_JOBS = 5000
"""Most jobs of one dequeue, whatever its limit."""


class DequeueCall:
    """Carries out dequeues together with their acks.

    Args:
        broker: hands out jobs.
        acks: carries out the acks.
        limits: queue settings of the store.
        load_shedder: refuses dequeues while the store is overloaded.
        settings: limits and defaults.
        claims: creates claim descriptors.
        metrics: counts dequeues and jobs.
        max_bytes: most bytes of the jobs in a reply.
    """

    def __init__(
        self,
        broker: Broker,
        acks: AckCall,
        limits: StoredLimits,
        *,
        load_shedder: LoadShedder,
        settings: Settings,
        claims: ClaimNames,
        metrics: Metrics,
        max_bytes: int,
    ) -> None:
        self._backend = broker.backend
        self._broker = broker
        self._acks = acks
        self._limits = limits
        self._load_shedder = load_shedder
        self._settings = settings
        self._claims = claims
        self._metrics = metrics
        self._now_ms = broker.backend.now_ms
        self._max_bytes = max_bytes

    async def answer(self, arguments: Any, caller: Caller) -> CallReply:
        """Carry out the acks and claim jobs at the same time; return the jobs if both succeed."""
        queue = arguments.request.queueName
        acking = await self._acks.start(arguments.request.jobAckRequest, caller)
        try:
            found = await self._hand_out(arguments, caller)
        except BaseException as error:
            if isinstance(error, DequeueRateLimited):
                self._metrics.dequeues_rate_limited.add(queue)
            if acking is not None:
                await asyncio.wait([acking])
                acking.exception()  # the client gets the error of the dequeue
            raise
        if acking is not None:
            try:
                await acking
            except Exception:  # also a Thrift-level error
                await self._broker.give_back(found)
                raise
        if found.claim is None:  # a dry run is not counted, but its jobs are
            return self._answer_of(found)
        if found.jobs and found.is_overdue:
            log.warning(
                "the lease of dequeued jobs of queue %s may have expired; they are returned instead of handed out",
                queue,
            )
            await self._broker.give_back(found)
            found = found._replace(jobs={})
        self._metrics.dequeues.add(queue)
        if not found.jobs:
            self._metrics.empty_dequeues.add(queue)
        return self._answer_of(found)

    async def _hand_out(self, arguments: Any, caller: Caller) -> DequeueResult:
        """Validate the request; claim jobs, or only read them for a dry run."""
        request = arguments.request
        queue = request.queueName
        others = request.otherQueueNames or ()
        queues = await offload(len(others), rules.queues_of, queue, others)
        if request.limit < 1:
            raise UnknownError(f"the limit of a dequeue must be at least 1, not {request.limit}")
        coverage = request.coverage
        if not 0.0 <= coverage <= 1.0:
            raise UnknownError(f"coverage {coverage} is not a fraction between 0 and 1")
        if not covered(coverage, self._backend.shards):
            return DequeueResult({})
        self._load_shedder.check_dequeue()
        self._limits.check_loaded()
        source, limit = arguments.context.source, min(request.limit, MAX_DEQUEUE_JOBS)
        claims_bytes = limit * len(source.encode())  # the reply repeats the claim for each job
        max_bytes = max(self._max_bytes - claims_bytes, 0)
        if request.dryRun:
            return DequeueResult({queue: await self._broker.peek(queue, limit, max_bytes)})
        lease_ms = self._lease_ms(request.claimTimeoutMillis)

        def new_claim() -> Claim:
            return Claim(self._claims.new(source), lease_ms, coverage)

        wait_seconds = rules.wait_seconds(request.waitMillis, self._settings.max_wait_ms)
        order = DequeueRequest(queues, limit, max_bytes, new_claim, wait_seconds)
        started = time.perf_counter()
        found = await self._broker.dequeue(order, caller)
        if wait_seconds:
            self._metrics.dequeue_wait_seconds.observe(queue, time.perf_counter() - started)
        return found

    def _lease_ms(self, asked_ms: int | None) -> int:
        settings = self._settings
        if not asked_ms or asked_ms < 0:
            return int(settings.claim_timeout_seconds * 1000)
        return min(asked_ms, int(settings.max_claim_timeout_seconds * 1000))

    def _answer_of(self, found: DequeueResult) -> CallReply:
        claim = None if found.claim is None else found.claim.descriptor
        for queue, claimed in found.jobs.items():
            self._count_handed_out(queue, claimed)
        reply = dequeue_reply(found.jobs.values(), claim, self._now_ms())
        undo = None if claim is None or not reply.jobs else partial(self._broker.give_back, found)
        return CallReply(reply, undo)

    def _count_handed_out(self, queue: str, claimed: list[DequeuedJob]) -> None:
        if not claimed:
            return
        first, count = claimed[0], len(claimed)
        due_ms = max(first.run_after_ms, first.created_at_ms)
        now = max(self._now_ms(), due_ms)  # the clock of its shard may be ahead
        self._metrics.jobs_dequeued.add(queue, count)
        self._metrics.dequeue_delay_ms.observe(queue, now - due_ms, count)
        retries = len([1 for job in claimed if job.attempts_remaining < job.attempts_allowed])
        if retries:
            self._metrics.retries_dequeued.add(queue, retries)
        if first.attempts_remaining == first.attempts_allowed:
            self._metrics.first_dequeue_delay_ms.observe(queue, now - first.created_at_ms, count)
