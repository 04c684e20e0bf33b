"""Figures of job classes over time, from the statistics in the store."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.model.statistics import FLEET, HOUR, MINUTE, Spread, Statistics, StatisticsKind, total

_DAY = 24 * HOUR
_MOST_QUEUES = 50
"""Queues of one class whose figures are shown separately."""

_MOST_READ = 10_000
"""About how many rows one view reads; later views read the rest of a long span."""
_QUEUES_OF_A_CALL = 500
_MOST_KEPT = 8
"""Histories that are cached; each is of one class or queue, over one span."""

_UNSETTLED_SECONDS = 180.0
"""How long after the end of a period servers and workers may still add to it."""


class Span(NamedTuple):
    """A span of time up to now.

    Attributes:
        name: name in addresses.
        words: the span in words.
        periods: number of its periods; the last one is not over.
        period: seconds of a period.
        resolution: seconds of the statistics that a period is made of.
    """

    name: str
    words: str
    periods: int
    period: int
    resolution: int

    @property
    def unit(self) -> str:
        """The name of a period."""
        return {MINUTE: "minute", HOUR: "hour", _DAY: "day"}[self.period]

    def starts(self, now_seconds: float) -> range:
        """Return the starts of its periods, in epoch milliseconds."""
        step = self.period * 1000
        last = int(now_seconds * 1000) // step * step
        return range(last - (self.periods - 1) * step, last + 1, step)


SPANS = {
    span.name: span
    for span in (
        Span("1h", "hour", 60, MINUTE, MINUTE),
        Span("24h", "24 hours", 24, HOUR, HOUR),
        Span("30d", "30 days", 30, _DAY, HOUR),
    )
}


class ClassFigures(NamedTuple):
    """What happened to the jobs of a class, in one queue or in all.

    Attributes:
        name: the class.
        queue: the queue; empty: all.
        total: the sum over the whole span.
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
        """Share of attempts that failed; None if there were no attempts."""
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
        """Return the quantile ``share`` of run times, in seconds; None if unknown."""
        return quantile_seconds(self.total.run, share)

    def wait_seconds(self, share: float) -> float | None:
        """Return the quantile ``share`` of waiting times, in seconds; None if unknown."""
        return quantile_seconds(self.total.wait, share)


class ClassHistory(NamedTuple):
    """Figures of classes.

    Attributes:
        figures: figures of each class, or of each queue of one class.
        unread: how many periods have not been read yet; later views read them.
    """

    figures: list[ClassFigures]
    unread: int


class _Period(NamedTuple):
    """What happened in a period, by class or by queue.

    Attributes:
        read_at: when it was read, epoch seconds.
        queues: the queues that were read.
        by_name: class or queue -> what happened.
    """

    read_at: float
    queues: frozenset[str]
    by_name: dict[str, Statistics]


class ClassHistories:
    """Reads figures of classes; a period is not read again once nothing is added to it any more.

    Args:
        client: client of the server.
        clock: epoch seconds.
    """

    def __init__(self, client: AsyncVerbs, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[tuple[str, str, str], dict[int, _Period]] = OrderedDict()

    async def of_queue(self, span: Span, queue: str = FLEET) -> ClassHistory:
        """Return the figures of all classes of a queue, or of all queues together.

        Raises:
            PinLaterError: the server does not answer, or is of an older version.
        """
        return await self._read(span, [queue], None, lambda one: one.name)

    async def of_class(self, span: Span, name: str) -> ClassHistory:
        """Return the figures of a class in each queue in which it ran within the last day, at most 50 queues.

        Raises:
            PinLaterError: the server does not answer, or is of an older version.
        """
        every, now_ms, recent = sorted(await self._client.queue_names()), int(self._clock() * 1000), set()
        for first in range(0, len(every), _QUEUES_OF_A_CALL):
            some = every[first : first + _QUEUES_OF_A_CALL]
            for resolution, seconds in ((HOUR, _DAY), (MINUTE, 5 * MINUTE)):
                recent |= {one.queue for one in await self._ask(resolution, now_ms - seconds * 1000, None, some, name)}
        if not recent:
            return ClassHistory([], 0)
        return await self._read(span, sorted(recent)[:_MOST_QUEUES], name, lambda one: one.queue)

    async def _read(
        self, span: Span, queues: Sequence[str], name: str | None, name_of: Callable[[Statistics], str]
    ) -> ClassHistory:
        known, starts, wanted = self._periods(span, queues, name), span.starts(self._clock()), frozenset(queues)
        for start in [start for start, one in known.items() if start not in starts or not wanted <= one.queues]:
            del known[start]
        read = 0
        for start in reversed(starts):
            if read >= _MOST_READ:
                break
            if not self._is_settled(span, start, known.get(start)):
                found = await self._ask(span.resolution, start, start + span.period * 1000, queues, name)
                known[start] = _Period(self._clock(), wanted, _by_name(found, name_of))
                read += len(found)
        unread = sum(start not in known for start in starts)
        return ClassHistory(_figures([known.get(start) for start in starts]), unread)

    async def _ask(
        self, resolution: int, since_ms: int, until_ms: int | None, queues: Sequence[str], name: str | None
    ) -> list[Statistics]:
        return await self._client.statistics(
            StatisticsKind.CLASS, resolution=resolution, since_ms=since_ms, until_ms=until_ms, queues=queues, name=name
        )

    def _periods(self, span: Span, queues: Sequence[str], name: str | None) -> dict[int, _Period]:
        key = span.name, "" if name else queues[0], name or ""
        known = self._known.setdefault(key, {})
        self._known.move_to_end(key)
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return known

    def _is_settled(self, span: Span, start: int, known: _Period | None) -> bool:
        return known is not None and known.read_at >= start / 1000 + span.period + _UNSETTLED_SECONDS


def _by_name(found: Iterable[Statistics], name_of: Callable[[Statistics], str]) -> dict[str, Statistics]:
    by_name: dict[str, list[Statistics]] = {}
    for one in found:
        by_name.setdefault(name_of(one), []).append(one)
    return {name: total(some) for name, some in by_name.items()}


def _figures(periods: Sequence[_Period | None]) -> list[ClassFigures]:
    names = dict.fromkeys(name for period in periods if period is not None for name in period.by_name)
    return [_figure([None if period is None else period.by_name.get(name) for period in periods]) for name in names]


def _figure(periods: Sequence[Statistics | None]) -> ClassFigures:
    whole = total(period for period in periods if period is not None)
    return ClassFigures(whole.name, whole.queue, whole, periods)


def quantile_seconds(times: Spread, share: float) -> float | None:
    """Return a quantile of times in milliseconds, in seconds; None if there are none."""
    milliseconds = times.quantile(share)
    return None if milliseconds is None else milliseconds / 1000
