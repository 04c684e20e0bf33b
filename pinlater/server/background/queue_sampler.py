"""Sample the queues for the metrics, so that a metrics page never queries the store itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import NoReturn

from pinlater.errors import QueueNotFound, UnknownError
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.records import JobFilter
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.recent import RecentRates

log = logging.getLogger(__name__)

_REST_FACTOR = 19
"""Rest after each queue this many times as long as it took, so that at most a twentieth of one store reader is used."""


class QueueSampler:
    """Counts due, scheduled, running and failed jobs, and finds the oldest due job of each queue.

    Counts stop at ``COUNT_LIMIT``. With many or deep queues a round takes longer than the interval, so that the load on
    the store stays low.

    Args:
        backend: the store.
        metrics: the gauges to set.
        is_paused: returns whether a queue is paused.
    """

    def __init__(self, backend: ServerStore, metrics: Metrics, is_paused: Callable[[str], bool]) -> None:
        self._backend = backend
        self._metrics = metrics
        self._now_ms = backend.now_ms
        self._is_paused = is_paused

    async def sample(self) -> None:
        """Sample all queues once; only one process of a server may do so."""
        found = await self._backend.states_in_use()
        for gauge in self._metrics.sampled_queue_gauges:
            gauge.retain(found)
        for queue, states in sorted(found.items()):
            started = time.perf_counter()
            try:
                await self._sample_queue(queue, states)
            except QueueNotFound:  # deleted since
                continue
            except UnknownError as error:  # such as a count that takes too long; those of other queues may not
                log.debug("queue %s cannot be sampled: %s", queue, error)
            await asyncio.sleep(_REST_FACTOR * (time.perf_counter() - started) if states else 0)

    async def _sample_queue(self, queue: str, states: Collection[int]) -> None:
        """Sample a queue; states in which it has no jobs are not counted."""
        metrics = self._metrics

        async def count(which: JobFilter) -> int:
            return int(await self._backend.count_jobs(queue, which)) if which.state in states else 0

        due = await count(JobFilter(PENDING, is_future=False))
        retried_now = await count(JobFilter(PENDING, is_future=False, is_retrying=True)) if due else 0
        metrics.running_jobs.set(queue, await count(JobFilter(IN_PROGRESS)))
        first_ms = (await self._backend.first_due([queue])).get(queue) if due else None
        age_ms = 0 if first_ms is None else max(self._now_ms() - first_ms, 0)
        metrics.paused.set(queue, float(self._is_paused(queue)))  # before its backlog, which nobody is to work off
        metrics.backlog_jobs.set(queue, due)
        metrics.oldest_due_age_seconds.set(queue, age_ms / 1000)
        future = await count(JobFilter(PENDING, is_future=True))
        waiting = await count(JobFilter(PENDING, waits_for_key=True)) if future else 0
        retried_later = await count(JobFilter(PENDING, is_future=True, is_retrying=True)) if future else 0
        if waiting and retried_later:  # a retrying job that waits for its key counts as retrying only
            waiting -= await count(JobFilter(PENDING, is_retrying=True, waits_for_key=True))
        metrics.scheduled_jobs.set(queue, max(future - max(waiting, 0) - retried_later, 0))
        metrics.waiting_for_key_jobs.set(queue, max(waiting, 0))
        metrics.retrying_jobs.set(queue, retried_now + retried_later)
        metrics.due_retrying_jobs.set(queue, retried_now)
        metrics.failed_jobs.set(queue, await count(JobFilter(FAILED)))
        metrics.active_shards.set(queue, len(self._backend.active_shards(queue)))


async def follow_completions(metrics: Metrics, interval_seconds: float) -> NoReturn:
    """Update the rates of completion until cancelled; run it in every process, since each counts its own acks."""
    rates = RecentRates()
    while True:
        ended = Counter(metrics.acks_succeeded.by_queue())
        ended.update(metrics.acks_failed.by_queue())
        for queue, rate in rates.add(time.monotonic(), ended).items():
            metrics.completions_per_second.set(queue, max(rate, 0.0))  # negative: it was deleted and created again
        metrics.completions_per_second.retain(ended)
        await asyncio.sleep(interval_seconds)


async def forget_missing_queues(
    queue_names: Callable[[], Awaitable[set[str]]], metrics: Metrics, interval_seconds: float
) -> NoReturn:
    """Drop the series of queues that do not exist, until cancelled; run it in every process.

    Another server may have deleted the queue, or calls for a queue that never existed were counted. A queue must be
    missing twice, so that a new queue keeps its series.
    """
    missed: set[str] = set()
    while True:
        await asyncio.sleep(interval_seconds)
        try:
            missing = metrics.queues() - await queue_names()
        except Exception:
            log.debug("listing the queues for the metrics failed", exc_info=True)
            continue
        for queue in missing & missed:
            metrics.forget_queue(queue)
        missed = missing
