"""Carry out acks, sent alone or together with a dequeue."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

from pinlater.errors import ServiceError
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion.statistics import run_statistics
from pinlater.server.api.ack_rules import ParsedAcks, read_acks
from pinlater.server.api.eager_tasks import start_task
from pinlater.server.api.offload import offload
from pinlater.server.api.rules import check_queue_name
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.broker import Broker, Caller
from pinlater.server.metrics import Metrics


class AckCall:
    """Carries out acks.

    Args:
        broker: passes acks to the store.
        metrics: counts acks.
        max_result_bytes: longest result of a job.
        statistics: collects the statistics of job classes that workers send, and failures by group.
    """

    def __init__(self, broker: Broker, metrics: Metrics, max_result_bytes: int, statistics: StatisticsBuffer) -> None:
        self._broker = broker
        self._statistics = statistics
        self._max_result_bytes = max_result_bytes
        self._metrics = metrics

    async def answer(self, arguments: Any, _: Caller) -> None:
        """Carry out the acks of ``ackDequeuedJobs``."""
        self._record_runs(arguments.request)
        if arguments.request.jobsSucceeded or arguments.request.jobsFailed:
            await self._ack(await self._read(arguments.request))

    async def start(self, request: wire.PinLaterJobAckRequest | None, caller: Caller) -> asyncio.Future[None] | None:
        """Start the acks of a dequeue, which run while it claims jobs; return None if there are none.

        Raises:
            Exception: an ack is malformed; the others are carried out, and the dequeue must claim nothing.
        """
        if request is None:
            return None
        self._record_runs(request)
        if not (request.jobsSucceeded or request.jobsFailed):
            return None
        acks = await self._read(request)
        request.jobsSucceeded = request.jobsFailed = None  # frees memory, since the call may wait for a long time
        if acks.faults:
            await self._ack(acks)
        acking = start_task(asyncio.get_running_loop(), self._ack(acks))
        # If the acks fail, the dequeue must not wait any longer to report that.
        acking.add_done_callback(lambda done: caller.interrupt() if done.cancelled() or done.exception() else None)
        return acking

    def _record_runs(self, request: wire.PinLaterJobAckRequest) -> None:
        if not request.runStatistics:
            return
        queue = request.queueName or ""
        with suppress(ServiceError):  # an ack with this name is refused
            check_queue_name(queue)
            self._statistics.add_runs(queue, run_statistics(request.runStatistics))

    async def _ack(self, acks: ParsedAcks) -> None:
        """Carry out the valid acks, then raise the error of the first malformed one."""
        settled = await self._broker.ack(acks.queue, acks.succeeded, acks.failed)
        self._metrics.acks_succeeded.add(acks.queue, len(acks.succeeded))
        self._metrics.acks_failed.add(acks.queue, len(acks.failed))
        if acks.failed:
            self._record_failures(acks)
        cancelled = min(sum(ack.is_cancelled for ack in acks.failed), settled.failed) if acks.failed else 0
        self._metrics.jobs_given_up.add(acks.queue, settled.failed - cancelled)
        if cancelled:
            self._metrics.jobs_cancelled.add(acks.queue, cancelled)
        if settled.stale:
            self._metrics.stale_acks.add(acks.queue, settled.stale)
        if acks.faults:
            raise acks.faults[0]

    def _record_failures(self, acks: ParsedAcks) -> None:
        groups = Counter(ack.failure.group for ack in acks.failed if ack.failure is not None)
        for group, failed in groups.items():
            self._statistics.add_failures(acks.queue, group, failed)

    async def _read(self, request: wire.PinLaterJobAckRequest) -> ParsedAcks:
        count = len(request.jobsSucceeded or ()) + len(request.jobsFailed or ())
        return await offload(count, read_acks, request, self._max_result_bytes)
