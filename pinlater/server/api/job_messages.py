"""Carry out the calls about messages to jobs, and those that ask jobs to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import CancelledJobs
from pinlater.model.status import CANCELLED_WITH_PARENT
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion.messages import CANCELLED, RECEIVED
from pinlater.server.api import rules
from pinlater.server.api.offload import offload
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.records import Cancelled
from pinlater.server.broker import Broker, Caller
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics

_CHILDREN_AT_ONCE = 1000
MAX_READ_MESSAGES = 5000
"""Most messages of one answer."""


class JobMessages:
    """Carries out calls about messages and cancellation.

    Args:
        broker: passes the calls to the store.
        settings: limits.
        metrics: counts cancelled jobs.
        max_bytes: most bytes of the messages in a reply.
    """

    def __init__(self, broker: Broker, settings: Settings, metrics: Metrics, max_bytes: int) -> None:
        self._broker = broker
        self._settings = settings
        self._metrics = metrics
        self._max_bytes = max_bytes

    async def send(self, arguments: Any, _: Caller) -> bool:
        """Store a message; return False if its job does not exist or has finished."""
        request = arguments.request
        message = rules.message(request, self._settings.max_body_bytes)
        return await self._broker.backend.send_message(JobDescriptor.parse(request.jobDescriptor), message)

    async def read(self, arguments: Any, _: Caller) -> list[wire.PinLaterMessage]:
        """Return messages of a job."""
        request = arguments.request
        rules.check_limit(request.limit)
        job, most = JobDescriptor.parse(request.jobDescriptor), min(request.limit, MAX_READ_MESSAGES)
        found = await self._broker.backend.read_messages(job, request.name, request.after, most, self._max_bytes)
        return RECEIVED.structs(found)

    async def cancel(self, arguments: Any, _: Caller) -> int:
        """Cancel jobs and their children; return how many are cancelled or asked to stop."""
        request = arguments.request
        rules.check_queue_name(request.queueName)
        names, status = request.jobDescriptors, rules.status_text(request.appendCustomStatus)
        jobs = await offload(len(names), rules.jobs_of, request.queueName, names)
        return await self._cancel(request.queueName, jobs, status)

    async def _cancel(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> int:
        """Cancel jobs of one queue, then their children, level by level; return how many jobs were cancelled.

        A child that is enqueued later is refused, since its parent is asked to stop. A child with children stays listed
        until they are cancelled, so the same call, made again after a failure, finds what is left.
        """
        backend = self._broker.backend
        cancelled = await self._cancel_level(queue, jobs, status)
        count, levels = len(cancelled.ended) + len(cancelled.asked), [cancelled.parents]
        while levels:
            parents = levels[-1]
            children = await backend.children_to_cancel(parents, _CHILDREN_AT_ONCE) if parents else []
            below: list[JobDescriptor] = []
            for name, some in grouped((job.queue, job) for job in children).items():
                cancelled = await self._cancel_level(name, some, CANCELLED_WITH_PARENT)
                count += len(cancelled.ended) + len(cancelled.asked)
                below += cancelled.parents
            if below:
                levels.append(tuple(below))
            elif not children:
                levels.pop()
                for name, some in grouped((job.queue, job) for job in parents).items():
                    await backend.finish_cancellation(name, some)
        return count

    async def _cancel_level(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
        """Cancel jobs of one queue without their children."""
        cancelled = await self._broker.cancel(queue, jobs, status)
        if cancelled.newly_ended:
            self._metrics.jobs_cancelled.add(queue, cancelled.newly_ended)
        return cancelled

    async def cancelled(self, arguments: Any, caller: Caller) -> Any:
        """Return which running jobs were recently asked to stop; wait for one if the call asks for that."""
        request = arguments.request
        wait_seconds = rules.wait_seconds(request.waitMillis, self._settings.max_wait_ms)
        found = await self._broker.cancellations.wait(request.sinceTimestampMillis, wait_seconds, caller)
        return CANCELLED.struct(CancelledJobs(*found))
