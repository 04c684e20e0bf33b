"""Metrics of the last hour, in memory, for the charts."""

from __future__ import annotations

import math
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from pinlater.dashboard.figures import (
    CALL_SECONDS,
    CALLS_SHED,
    COMMIT_REQUESTS,
    COMMIT_SECONDS,
    DEQUEUED,
    ENQUEUED,
    ERRORS,
    FAILED,
    FAILED_COMMITS,
    PARKED,
    SHARD_FAILURES,
    SHARD_SECONDS,
    STATE_GAUGES,
    STORE_SECONDS,
    SUCCEEDED,
    WAITED_MS,
    ServerFigures,
)

LENGTH = 720
"""Number of stored samples: an hour, since one is taken every five seconds."""

MOST_QUEUES = 200
"""Queues with a history; if there are more, the most recently active ones."""

_RATE_SAMPLES, _LINE_SAMPLES = 4, 120
"""Samples of a rate, and of a line beside a queue."""

_RECENT = 13
"""Samples whose histograms are kept: a minute."""

_RECENT_SPREADS = (CALL_SECONDS, COMMIT_REQUESTS, COMMIT_SECONDS, SHARD_SECONDS, STORE_SECONDS)
_RECENT_COUNTERS = (ERRORS, SHARD_FAILURES, FAILED_COMMITS, CALLS_SHED)

FIELDS = ("enqueued", "succeeded", "failed", "waited_ms")
SERVER_FIELDS = ("calls", "call_ms", "commit_requests", "commit_ms", "parked")
_COUNTERS = {"enqueued": ENQUEUED, "succeeded": SUCCEEDED, "failed": FAILED}


class Rates(NamedTuple):
    """Recent rates of one queue, in jobs a second; None while unknown."""

    enqueued: float | None = None
    succeeded: float | None = None
    failed: float | None = None


class _Series:
    """Ring buffers of one queue, of all queues or of the server, by field; they share the history's position."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.values = {name: array("f", [math.nan]) * LENGTH for name in fields}
        self.active = 0  # the last sample in which something happened


class History:
    """Keeps samples of the metrics.

    Args:
        read_figures: returns the current metrics.
        clock: epoch seconds.
    """

    def __init__(
        self, read_figures: Callable[[], Awaitable[ServerFigures]], clock: Callable[[], float] = time.time
    ) -> None:
        self._read_figures = read_figures
        self._clock = clock
        self._count = 0
        self._moments = array("d", [math.nan]) * LENGTH
        self._queues: dict[str, _Series] = {}
        self._server = _Series(SERVER_FIELDS)
        self._fleet = _Series(tuple(_COUNTERS))
        self._last: tuple[float, ServerFigures] | None = None
        self._recent: deque[tuple[float, ServerFigures]] = deque(maxlen=_RECENT)

    @property
    def is_of_all_servers(self) -> bool:
        """Whether no other server uses the store."""
        return self._last is not None and self._last[1].is_one_file

    @property
    def silent_shards(self) -> list[str]:
        """Names of the shards that do not answer."""
        return [] if self._last is None else [shard.name for shard in self._last[1].shards if shard.unhealthy_in]

    async def sample(self) -> None:
        """Take one sample, unless no server process answers."""
        figures = await self._read_figures()
        if figures.processes:
            self.add(self._clock(), figures)

    def add(self, moment: float, figures: ServerFigures) -> None:
        """Store one sample."""
        position = self._count % LENGTH
        self._moments[position] = moment
        before, seconds = (None, 0.0) if self._last is None else (self._last[1], moment - self._last[0])
        for queue in self._select_queues(figures):
            self._add_queue(queue, position, before, figures, seconds)
        self._add_rates(self._fleet, position, before, figures, seconds)
        self._add_server(position, before, figures, seconds)
        self._count += 1
        self._last = (moment, figures)
        histograms = {name: figures.histograms.get(name, {}) for name in _RECENT_SPREADS}
        errors = {name: figures.counters.get(name, {}) for name in _RECENT_COUNTERS}
        self._recent.append((moment, ServerFigures(figures.processes, errors, histograms, figures.gauges)))

    def _select_queues(self, figures: ServerFigures) -> set[str]:
        """Return the queues to record: known ones that still exist, and new ones up to the limit."""
        existing = figures.queues()
        for gone in self._queues.keys() - existing:
            del self._queues[gone]
        new = existing - self._queues.keys()
        if self._last is not None and len(existing) > MOST_QUEUES:
            new = {queue for queue in new if figures.total(DEQUEUED, queue) != self._last[1].total(DEQUEUED, queue)}
        for queue in sorted(new)[:MOST_QUEUES]:
            if len(self._queues) >= MOST_QUEUES:
                del self._queues[min(self._queues, key=lambda name: self._queues[name].active)]
            self._queues[queue] = _Series(FIELDS)
        return set(self._queues)

    def _add_queue(
        self, queue: str, position: int, before: ServerFigures | None, now: ServerFigures, seconds: float
    ) -> None:
        series = self._queues[queue]
        self._add_rates(series, position, before, now, seconds, queue)
        quantile = None if before is None else now.added(before, WAITED_MS, queue).quantile(0.95)
        series.values["waited_ms"][position] = math.nan if quantile is None else quantile

    def _add_rates(  # noqa: PLR0917 - one sample
        self,
        series: _Series,
        position: int,
        before: ServerFigures | None,
        now: ServerFigures,
        seconds: float,
        queue: str | None = None,
    ) -> None:
        """Store the rates at which the counters of a queue, or of all queues, have grown."""
        for name, counter in _COUNTERS.items():
            added = math.nan if before is None else now.total(counter, queue) - before.total(counter, queue)
            series.values[name][position] = added / seconds if added >= 0 and seconds > 0 else math.nan
            if added > 0:
                series.active = self._count

    def _add_server(self, position: int, before: ServerFigures | None, now: ServerFigures, seconds: float) -> None:
        values = self._server.values
        values["parked"][position] = now.gauges.get(PARKED, math.nan)
        for name in ("calls", "call_ms", "commit_requests", "commit_ms"):
            values[name][position] = math.nan
        if before is None or seconds <= 0:
            return
        calls, total = 0, 0.0
        for labels in now.histograms.get(CALL_SECONDS, {}):
            added = now.added(before, CALL_SECONDS, *labels)
            calls, total = calls + added.size, total + added.sum
        values["calls"][position] = calls / seconds
        values["call_ms"][position] = total / calls * 1000 if calls else math.nan
        for name, family, unit in (("commit_requests", COMMIT_REQUESTS, 1), ("commit_ms", COMMIT_SECONDS, 1000)):
            mean = now.added(before, family).mean
            values[name][position] = math.nan if mean is None else mean * unit

    # Reading

    def rates(self, queue: str) -> Rates:
        """Return a queue's mean rates over the last samples; zero for a queue without a history."""
        series = self._queues.get(queue)
        if series is None:
            return Rates(0.0, 0.0, 0.0) if self._count > 1 else Rates()
        return Rates(*(_mean(self._tail(series.values[name], _RATE_SAMPLES)) for name in Rates._fields))

    def line(self, queue: str, name: str, samples: int = _LINE_SAMPLES) -> list[float | None]:
        """Return the last values of a queue's field, oldest first; None for missing values."""
        series = self._queues.get(queue)
        return [] if series is None else self._tail(series.values[name], samples)

    def total_line(self, name: str, queues: Collection[str] | None = None) -> list[float | None]:
        """Return the last values of a field, summed over queues; None: over all, including those without a history."""
        if queues is None:
            return self._tail(self._fleet.values[name], _LINE_SAMPLES)
        lines = [
            self._tail(self._queues[queue].values[name], _LINE_SAMPLES) for queue in queues if queue in self._queues
        ]
        return [
            sum(known) if (known := [value for value in column if value is not None]) else None
            for column in zip(*lines, strict=True)
        ]

    def by_queue(self, counter: str) -> dict[str, int]:
        """Return a counter of queues from the last sample."""
        counts = {} if self._last is None else self._last[1].counters.get(counter, {})
        return {queue: count for (queue,), count in counts.items()}

    def level(self, name: str, queue: str) -> float | None:
        """Return a queue's gauge from the last sample; None if unknown."""
        return None if self._last is None else self._last[1].level(name, queue)

    def signs(self, queue: str) -> tuple[float | None, ...] | None:
        """Return figures of the last sample that change when something happens in a queue; None if unknown."""
        if self._last is None:
            return None
        now = self._last[1]
        levels = [now.level(name, queue) for name in STATE_GAUGES.values()]
        if None in levels:
            return None
        return (
            *levels,
            *(now.counters.get(name, {}).get((queue,)) for name in (ENQUEUED, DEQUEUED, SUCCEEDED, FAILED)),
        )

    def moments(self) -> list[float]:
        """Return the times of the last samples, in epoch seconds."""
        return [value for value in self._tail(self._moments, LENGTH) if value is not None]

    def server_line(self, name: str) -> list[float | None]:
        """Return the last values of one of ``SERVER_FIELDS``."""
        return self._tail(self._server.values[name], LENGTH)

    def recent(self) -> tuple[float, ServerFigures, ServerFigures] | None:
        """Return seconds, first and last metrics of the last minute, or of the part of it that was recorded."""
        if len(self._recent) < 2:
            return None
        (start, first), (end, last) = self._recent[0], self._recent[-1]
        return end - start, first, last

    def earlier(self, samples: int) -> ServerFigures | None:
        """Return the metrics of ``samples`` samples ago, or the oldest kept; None if there is no sample yet."""
        return self._recent[-min(samples, len(self._recent))][1] if self._recent else None

    def _tail(self, values: array[float], samples: int) -> list[float | None]:
        known = min(samples, self._count, LENGTH)
        positions = range(self._count - known, self._count)
        return [None if math.isnan(value := values[position % LENGTH]) else value for position in positions]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
