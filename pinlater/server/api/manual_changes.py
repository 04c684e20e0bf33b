"""Carry out manual changes of jobs: retry failed jobs, run pending jobs now or at another time."""

from __future__ import annotations

from typing import Any

from pinlater.server.api import rules
from pinlater.server.api.offload import offload
from pinlater.server.backends.records import Once
from pinlater.server.broker import Broker


class ManualChanges:
    """Carries out manual changes of jobs.

    Args:
        broker: passes changes to the store.
        priority_levels: number of priorities.
    """

    def __init__(self, broker: Broker, priority_levels: int) -> None:
        self._broker = broker
        self._priority_levels = priority_levels

    async def retry_failed(self, arguments: Any, once: Once) -> int:
        """Retry the named failed jobs, or the oldest ones; return how many."""
        request = arguments.request
        rules.check_queue_name(request.queueName)
        priority, attempts, limit = request.priority, request.attemptsToAllow, request.limit
        rules.check_priority(priority, self._priority_levels)
        rules.check_limit(limit)
        queue, run_after_ms = request.queueName, request.runAfterTimestampMillis
        if run_after_ms is not None:
            run_after_ms = rules.due_time(run_after_ms)
        if request.jobDescriptors is not None:
            names = request.jobDescriptors
            jobs = await offload(len(names), rules.jobs_of, queue, names)
            return await self._broker.retry_these(queue, jobs, attempts, run_after_ms, once=once)
        return await self._broker.retry_failed(queue, priority, attempts, run_after_ms, limit, once=once)

    async def run_now(self, arguments: Any, once: Once) -> int:
        """Make the named pending jobs due now; return how many."""
        queue, names = arguments.request.queueName, arguments.request.jobDescriptors
        rules.check_queue_name(queue)
        jobs = await offload(len(names), rules.jobs_of, queue, names)
        return await self._broker.schedule(queue, jobs, None, once=once)

    async def schedule(self, arguments: Any, once: Once) -> int:
        """Make the named pending jobs due at another time; return how many."""
        request = arguments.request
        rules.check_queue_name(request.queueName)
        rules.check_time(request.runAfterTimestampMillis)
        jobs = await offload(len(request.jobDescriptors), rules.jobs_of, request.queueName, request.jobDescriptors)
        return await self._broker.schedule(request.queueName, jobs, request.runAfterTimestampMillis, once=once)
