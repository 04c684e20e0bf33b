"""Figures of job classes over time, from the statistics that the store keeps."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.model.statistics import FLEET, HOUR, MINUTE, MOST_CLASSES, Statistics, StatisticsKind, total

_MOST_ROWS = 20_000
"""Statistics of one call."""
_DAY = 24 * HOUR
_MOST_QUEUES = 50
"""Queues of one class that are told apart."""


class Span(NamedTuple):
    """A time to look back.

    Attributes:
        name: name in addresses.
        words: the time in words.
        seconds: its length.
        resolution: seconds of a period.
    """

    name: str
    words: str
    seconds: int
    resolution: int

    def starts(self, now_seconds: float) -> range:
        """Return when its periods began, in epoch milliseconds; the last one is not over."""
        step = self.resolution * 1000
        last = int(now_seconds * 1000) // step * step
        return range(last - self.seconds * 1000 + step, last + 1, step)


SPANS = {
    span.name: span
    for span in (
        Span("1h", "hour", HOUR, MINUTE),
        Span("24h", "24 hours", _DAY, HOUR),
        Span("30d", "30 days", 30 * _DAY, HOUR),
    )
}


class ClassFigures(NamedTuple):
    """What the attempts of a class did, in one queue or in all.

    Attributes:
        name: the class.
        queue: the queue; empty: all.
        total: the sum over the whole time.
        periods: what happened in each period; None: nothing.
    """

    name: str
    queue: str
    total: Statistics
    periods: Sequence[Statistics | None]

    @property
    def runs(self) -> int:
        """Number of attempts that have ended."""
        return self.total.succeeded + self.total.failed

    @property
    def failure_rate(self) -> float | None:
        """Share of attempts that failed; None without any."""
        return self.total.failed / self.runs if self.runs else None

    def line(self, value: Callable[[Statistics], float | None]) -> list[float | None]:
        """Return a value of each period; 0 where nothing happened."""
        return [0 if period is None else value(period) for period in self.periods]

    @property
    def runs_line(self) -> list[float | None]:
        """Attempts that ended in each period."""
        return self.line(lambda one: one.succeeded + one.failed)

    @property
    def failed_line(self) -> list[float | None]:
        """Attempts that failed in each period."""
        return self.line(lambda one: one.failed)

    def run_seconds(self, share: float) -> float | None:
        """Return for how long that share of the attempts ran at most; None if that is not known."""
        return _seconds(self.total.run.quantile(share))

    def wait_seconds(self, share: float) -> float | None:
        """Return for how long that share of the jobs waited at most; None if that is not known."""
        return _seconds(self.total.wait.quantile(share))


async def classes_of(client: AsyncVerbs, span: Span, queue: str = FLEET) -> list[ClassFigures]:
    """Return the figures of all classes of a queue, or of all queues together.

    Raises:
        PinLaterError: the server does not answer, or is of an older version.
    """
    starts = span.starts(time.time())
    found = [one async for one in _read(client, span, starts, [queue], MOST_CLASSES + 1)]
    return _figures(found, starts, lambda one: one.name)


async def queues_of_class(client: AsyncVerbs, span: Span, name: str) -> list[ClassFigures]:
    """Return the figures of a class in each queue; those in which it ran within the last day, at most 50.

    Raises:
        PinLaterError: the server does not answer, or is of an older version.
    """
    starts, day = span.starts(time.time()), SPANS["24h"].starts(time.time())
    every = sorted(await client.queue_names())
    recent = [one async for one in _read(client, SPANS["24h"], day, every, len(every), name=name)]
    queues = sorted({one.queue for one in recent})[:_MOST_QUEUES]
    if not queues:
        return []
    found = [one async for one in _read(client, span, starts, queues, len(queues), name=name)]
    return _figures(found, starts, lambda one: one.queue)


async def _read(
    client: AsyncVerbs, span: Span, starts: range, queues: Sequence[str], most: int, *, name: str | None = None
) -> AsyncIterator[Statistics]:
    """Yield statistics, call after call.

    Args:
        client: client of the server.
        span: which periods.
        starts: when they began.
        queues: of these queues; empty: none.
        most: most statistics of one period.
        name: the class; None: any.
    """
    at_once = max(_MOST_ROWS // max(most, 1), 1)
    for first in range(0, len(starts) if queues else 0, at_once):
        some = starts[first : first + at_once]
        for one in await client.statistics(
            StatisticsKind.CLASS,
            resolution=span.resolution,
            since_ms=some[0],
            until_ms=some[-1] + 1,
            queues=queues,
            name=name,
        ):
            yield one


def _figures(
    statistics: Iterable[Statistics], starts: range, name_of: Callable[[Statistics], str]
) -> list[ClassFigures]:
    by_name: dict[str, list[Statistics]] = {}
    for one in statistics:
        by_name.setdefault(name_of(one), []).append(one)
    return [_figure(some, starts) for some in by_name.values()]


def _figure(some: Sequence[Statistics], starts: range) -> ClassFigures:
    by_start = {one.start_ms: one for one in some}
    first = some[0]
    return ClassFigures(first.name, first.queue, total(some), [by_start.get(start) for start in starts])


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
