"""Write to the store what this process has counted, every few seconds.

The calls pay nothing for it: they update the counters of the metrics, and what these have grown by since the last write
is added to the store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from heapq import nsmallest
from operator import attrgetter
from typing import NoReturn

from pinlater.model.statistics import BOUNDS_MS, FLEET, HOUR, KEPT_SECONDS, MINUTE, StatisticsKind
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.backends.statistics import (
    ENQUEUED,
    FAILED,
    GIVEN_UP,
    MOST_ENTRIES,
    STARTED,
    SUCCEEDED,
    WAIT,
    Counts,
    StatisticsEntry,
    StatisticsKey,
    chunks,
    merged,
)
from pinlater.server.backends.statistics_buffer import StatisticsBuffer, Subject
from pinlater.server.metrics import Metrics

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5
"""Divides a minute, so that what was counted in one interval belongs to one minute."""

MOST_UNWRITTEN = 20_000
"""Most entries that wait while the store cannot take them; beyond that, the oldest are dropped."""

_REST_FACTOR = 19
_AT_ONCE = 50
"""Entries that are worked on before the event loop serves others."""

_LAST_SECONDS = 2.0
"""Longest time for the last write of a process that ends."""

_FIRST_WAIT_BUCKET = next(bucket for bucket, bound in enumerate(BOUNDS_MS) if bound == 1.0)


class StatisticsWriter:
    """Writes statistics until cancelled, minutes every five seconds and hours every minute.

    Args:
        backend: the store.
        metrics: the metrics of this process.
        buffer: the statistics that came with acks.
    """

    def __init__(self, backend: ServerStore, metrics: Metrics, buffer: StatisticsBuffer) -> None:
        self._backend = backend
        self._buffer = buffer
        self._now_ms = backend.now_ms
        self._counters = _QueueCounters(metrics)
        self._unwritten: dict[StatisticsKey, Counts] = {}
        self._collecting: asyncio.Future[None] | None = None
        self._names_of_ms = 0
        self._minute = 0

    async def run(self) -> NoReturn:
        """Collect every five seconds by the clock of the store, and write unless the store needs a rest."""
        write_at = 0.0
        try:
            while True:
                await self.collect()
                if time.monotonic() >= write_at:
                    began = time.monotonic()
                    await self.write(with_hours=self._begins_minute())
                    write_at = time.monotonic() + _REST_FACTOR * (time.monotonic() - began)
                step_ms = INTERVAL_SECONDS * 1000
                await asyncio.sleep((step_ms - self._now_ms() % step_ms) / 1000)
        finally:
            try:
                async with asyncio.timeout(_LAST_SECONDS):
                    if self._collecting is not None:
                        await self._collecting  # or what it had taken would be lost
                    await self.collect()
                    await self.write(with_hours=True)
            except TimeoutError:
                log.debug("the last statistics were not written in time")

    def _begins_minute(self) -> bool:
        """Return whether this is called for the first time in a minute."""
        before, self._minute = self._minute, self._now_ms() // (MINUTE * 1000)
        return self._minute != before

    async def write(self, *, with_hours: bool) -> None:
        """Write what was collected; what the store does not take is written next time."""
        wanted = [key for key in self._unwritten if with_hours or key.resolution != HOUR]
        for some in chunks(sorted(wanted), MOST_ENTRIES):
            # Removed first: if this is cancelled, they may have been written, and must not count twice.
            entries = [StatisticsEntry(key, self._unwritten.pop(key)) for key in some]
            try:
                await self._backend.add_statistics(entries)
            except Exception:
                log.debug("statistics could not be written", exc_info=True)
                self._unwritten |= dict(entries)
                break
        for key in nsmallest(len(self._unwritten) - MOST_UNWRITTEN, self._unwritten, key=attrgetter("start_ms")):
            del self._unwritten[key]

    async def collect(self) -> None:
        """Add what was counted since the last time to the periods that are just ending; it goes on if cancelled."""
        self._collecting = asyncio.ensure_future(self._collect())
        await asyncio.shield(self._collecting)

    async def _collect(self) -> None:
        just_now_ms = self._now_ms() - INTERVAL_SECONDS * 500
        starts = {resolution: just_now_ms // (resolution * 1000) * (resolution * 1000) for resolution in KEPT_SECONDS}
        counted = {**await self._counters.take(), **self._buffer.take()}
        for number, ((kind, queue, name), counts) in enumerate(counted.items()):
            for resolution, start_ms in starts.items():
                key = StatisticsKey(resolution, start_ms, int(kind), queue, name)
                self._unwritten[key] = merged(self._unwritten.get(key, {}), counts)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if starts[HOUR] != self._names_of_ms:
            self._names_of_ms = starts[HOUR]
            self._buffer.forget_names()


class _QueueCounters:
    """Computes by how much the counters of each queue have grown.

    Args:
        metrics: has the counters.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._delays = metrics.dequeue_delay_ms
        self._sources = (
            (ENQUEUED, metrics.jobs_enqueued),
            (STARTED, metrics.jobs_dequeued),
            (SUCCEEDED, metrics.acks_succeeded),
            (FAILED, metrics.acks_failed),
            (FAILED, metrics.timeouts_retried),
            (FAILED, metrics.timeouts_done),
            (GIVEN_UP, metrics.jobs_given_up),
        )
        self._before: list[dict[str, int]] = [{} for _ in self._sources]
        self._delays_before: dict[str, list[int]] = {}

    async def take(self) -> dict[Subject, Counts]:
        """Return the growth since this was called last, by queue, and for all queues together."""
        found: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for number, (position, counter) in enumerate(self._sources):
            before, now = self._before[number], counter.by_queue()
            for queue, count in now.items():
                grown = _growth(count, before.get(queue, 0))
                if grown:
                    found[queue][position] = found[queue].get(position, 0) + grown
            self._before[number] = now
        kept = self._delays.labels()
        self._delays_before = {queue: before for queue, before in self._delays_before.items() if queue in kept}
        fleet: dict[int, int] = {}
        for number, (queue, counts) in enumerate(found.items()):
            if STARTED in counts:
                self._add_waits(queue, counts)
            for position, count in counts.items():
                fleet[position] = fleet.get(position, 0) + count
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if fleet:
            found[FLEET] = fleet
        return {(StatisticsKind.QUEUE, queue, ""): counts for queue, counts in found.items()}

    def _add_waits(self, queue: str, counts: dict[int, int]) -> None:
        now = self._delays.counts(queue)
        before = self._delays_before.get(queue) or [0] * len(now)
        if sum(now) < sum(before):
            before = [0] * len(now)
        self._delays_before[queue] = now
        for bucket, grown in _wait_buckets(now, before):
            counts[WAIT + bucket] = counts.get(WAIT + bucket, 0) + grown


def _growth(count: int, before: int) -> int:
    """Return by how much a counter has grown; a queue that was deleted and created again begins at 0."""
    return count - before if count >= before else count


def _wait_buckets(now: list[int], before: list[int]) -> Iterator[tuple[int, int]]:
    """Yield buckets and their growth; from 1 ms on, the metric has two buckets for each of them."""
    for number, (count, old) in enumerate(zip(now, before, strict=True)):
        if count > old:
            yield _FIRST_WAIT_BUCKET + (number + 1) // 2, count - old
