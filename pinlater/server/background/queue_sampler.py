"""Looks at the queues from time to time, for the metrics: a page of metrics never asks the store itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

from pinlater.errors import QueueNotFound
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.records import JobFilter
from pinlater.server.backends.store import Store
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.recent import RecentRates

log = logging.getLogger(__name__)

_REST = 19
"""After a look, rest so many times as long as it took: the store spends a twentieth of one reader on it at most."""


class QueueWatch:
    """Counts what is due, scheduled, running and failed, and finds the oldest due job, queue by queue.

    Counts go no further than ``COUNT_LIMIT``. With many or deep queues a round takes longer than the interval, rather
    than more of the store.

    Args:
        backend: the store.
        metrics: told of what is seen.
        now_ms: the clock of the store.
        interval_seconds: between two rounds.
        is_paused: whether a queue hands out nothing.
    """

    def __init__(
        self,
        backend: Store,
        metrics: Metrics,
        now_ms: Callable[[], int],
        interval_seconds: float,
        is_paused: Callable[[str], bool],
    ) -> None:
        self._backend = backend
        self._metrics = metrics
        self._now_ms = now_ms
        self._is_paused = is_paused
        self._interval_seconds = interval_seconds

    async def run(self) -> NoReturn:
        """Look until cancelled; to be run by one process of a server."""
        while True:
            try:
                await self.look()
            except Exception:
                log.debug("the queues could not be looked at", exc_info=True)
            await asyncio.sleep(self._interval_seconds)

    async def look(self) -> None:
        """Do one round."""
        names = await self._backend.queue_names()
        for gauge in self._metrics.of_queues:
            gauge.keep(names)
        for queue in sorted(names):
            started = time.perf_counter()
            try:
                await self._look_at(queue)
            except QueueNotFound:  # deleted since
                continue
            await asyncio.sleep(_REST * (time.perf_counter() - started))

    async def _look_at(self, queue: str) -> None:
        metrics = self._metrics
        due = await self._backend.count_jobs(queue, JobFilter(PENDING, is_future=False))
        running = await self._backend.count_jobs(queue, JobFilter(IN_PROGRESS))
        oldest_ms = await self._backend.oldest_due_ms(queue) if due else None
        age_ms = 0 if oldest_ms is None else max(self._now_ms() - oldest_ms, 0)
        metrics.backlog_jobs.set(queue, due)
        metrics.running_jobs.set(queue, running)
        metrics.oldest_due_age_seconds.set(queue, age_ms / 1000)
        metrics.scheduled_jobs.set(queue, await self._backend.count_jobs(queue, JobFilter(PENDING, is_future=True)))
        metrics.retrying_jobs.set(queue, await self._backend.count_jobs(queue, JobFilter(PENDING, is_retry=True)))
        metrics.failed_jobs.set(queue, await self._backend.count_jobs(queue, JobFilter(FAILED)))
        metrics.paused.set(queue, float(self._is_paused(queue)))


async def follow_completions(metrics: Metrics, interval_seconds: float) -> NoReturn:
    """Keep the rates of completion right; to be run by every process, since each knows its own acks."""
    rates = RecentRates()
    while True:
        ended = Counter(metrics.acks_succeeded.by_queue())
        ended.update(metrics.acks_failed.by_queue())
        for queue, rate in rates.add(time.monotonic(), ended).items():
            metrics.completions_per_second.set(queue, rate)
        metrics.completions_per_second.keep(ended)
        await asyncio.sleep(interval_seconds)


async def forget_missing_queues(backend: Store, metrics: Metrics, interval_seconds: float) -> NoReturn:
    """Drop the series of queues that do not exist, again and again; to be run by every process.

    A queue may have been deleted by another server, and a call of one that never existed may have been counted. It has
    to be missed twice: what is counted for a new queue stays.
    """
    missed: set[str] = set()
    while True:
        await asyncio.sleep(interval_seconds)
        try:
            missing = metrics.queues() - await backend.queue_names()
        except Exception:
            log.debug("the queues are not known", exc_info=True)
            continue
        for queue in missing & missed:
            metrics.forget_queue(queue)
        missed = missing
