"""Data of the charts of queues: what happened in a range of time, and a day or a week earlier."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.history import LENGTH, History
from pinlater.dashboard.ttl_cache import TtlCache
from pinlater.model.statistics import HOUR, MINUTE, Statistics, StatisticsKind

_DAY = 24 * HOUR
_STALE_SECONDS = 120.0

Line = list[float | None]


class ChartRange(NamedTuple):
    """A range of time that charts show.

    Attributes:
        name: name in URLs.
        label: name in pages.
        seconds: its length.
        resolution: seconds per point.
        before_seconds: how much earlier the values for comparison are.
        before_resolution: seconds per point of these values.
        before_label: name of these values in the legend.
    """

    name: str
    label: str
    seconds: int
    resolution: int
    before_seconds: int
    before_resolution: int
    before_label: str


RANGES = {
    one.name: one
    for one in (
        ChartRange("1h", "last hour", HOUR, MINUTE, _DAY, MINUTE, "a day before"),
        ChartRange("24h", "last 24 hours", _DAY, MINUTE, _DAY, HOUR, "a day before"),
        ChartRange("30d", "last 30 days", 30 * _DAY, HOUR, 7 * _DAY, HOUR, "a week before"),
    )
}


class ChartLines(NamedTuple):
    """Lines of a queue: rates per second, and the 95th percentile of waiting times in milliseconds.

    Attributes:
        times: epoch seconds of the points.
    """

    times: list[float]
    enqueued: Line
    succeeded: Line
    failed: Line
    waited_ms: Line


class ChartData(NamedTuple):
    """Lines of a range, and those of the earlier values, shifted to the same times."""

    lines: ChartLines
    before: ChartLines

    def to_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {**self.lines._asdict(), "before": self.before._asdict()}


class QueueCharts:
    """Reads charts of queues, once for all users.

    Args:
        client: client of the server.
        history: metrics of the last hour, with a finer resolution than the store's.
        clock: epoch seconds.
    """

    def __init__(self, client: AsyncVerbs, history: History, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._history = history
        self._clock = clock
        self._stored = TtlCache(self._load, stale_seconds=_STALE_SECONDS)

    async def get(self, queue: str, chart_range: ChartRange) -> ChartData:
        """Return the chart of a queue; the empty name stands for all queues together.

        Raises:
            PinLaterError: the server does not answer.
        """
        stored = await self._stored.get((queue, chart_range))
        return stored._replace(lines=self._refined(queue, stored.lines)) if chart_range.seconds == HOUR else stored

    async def close(self) -> None:
        """End what runs in the background."""
        await self._stored.close()

    async def _load(self, key: tuple[str, ChartRange]) -> ChartData:
        queue, chosen = key
        now = self._clock()
        shift = chosen.before_seconds
        before = await self._lines(queue, now - chosen.seconds - shift, now - shift, chosen.before_resolution, shift)
        has_before = any(before.enqueued) or any(before.succeeded) or any(before.failed)
        return ChartData(
            await self._lines(queue, now - chosen.seconds, now, chosen.resolution),
            before if has_before else ChartLines([], [], [], [], []),
        )

    async def _lines(self, queue: str, start: float, end: float, resolution: int, shift: float = 0.0) -> ChartLines:
        """Return the lines between two moments, without the current, incomplete period."""
        first, last = int(start // resolution) * resolution, int(end // resolution) * resolution
        rows = await self._client.statistics(
            StatisticsKind.QUEUE,
            resolution=resolution,
            since_ms=first * 1000,
            until_ms=last * 1000,
            queues=[queue],
        )
        return lines_of(rows, range(first, last, resolution), shift)

    def _refined(self, queue: str, stored: ChartLines) -> ChartLines:
        """Replace points that the admin process has sampled itself by its finer samples."""
        history = self._history
        times = history.moments()
        if not queue or len(times) < 2 or not history.is_of_all_servers or not history.line(queue, "enqueued", LENGTH):
            return stored
        kept = sum(moment < times[0] for moment in stored.times)
        samples = [history.line(queue, name, LENGTH) for name in ChartLines._fields[1:]]
        return ChartLines(
            stored.times[:kept] + times,
            *(line[:kept] + sampled for line, sampled in zip(stored[1:], samples, strict=True)),
        )


def lines_of(rows: Iterable[Statistics], periods: range, shift: float = 0.0) -> ChartLines:
    """Return the lines of some statistics, with a point in the middle of each period.

    Args:
        rows: statistics of one queue.
        periods: epoch seconds of the starts of all periods.
        shift: seconds to add to the times.
    """
    by_start = {row.start_ms // 1000: row for row in rows}
    seconds = periods.step
    found = [by_start.get(start) for start in periods]

    def rate(field: str) -> Line:
        return [0.0 if row is None else getattr(row, field) / seconds for row in found]

    return ChartLines(
        [start + seconds / 2 + shift for start in periods],
        rate("enqueued"),
        rate("succeeded"),
        rate("failed"),
        [None if row is None else row.wait.quantile(0.95) for row in found],
    )
