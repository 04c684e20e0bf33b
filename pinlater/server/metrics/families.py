"""Counters, distributions and gauges: cheap to update, copied to be read.

They are updated in the event loop's thread only, so they need no locks. A family has one series for each label value,
or for each tuple of values if it has several labels. Clients must not be able to invent label values: only existing
queues, methods and codes may get a series.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter as _Counts
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

_V = TypeVar("_V")

Key = str | tuple[str, ...]
"""Label value of a series; a tuple if there are several labels, empty if there are none."""

_STEPS = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)  # E12: 12 round numbers, evenly spaced by ratio
_MOST_NOTED = 64
"""Values of a series that are collected first: sorting that many into buckets at once takes a third of the time."""

COARSE = 4  # every fourth: 1, 2.2, 4.7, 10 …


def bounds(lowest: int, highest: int) -> tuple[float, ...]:
    """Return upper bounds of buckets from 10**lowest to 10**highest, twelve a decade."""
    fine = [float(f"{step}e{decade}") for decade in range(lowest, highest) for step in _STEPS]
    return (*fine, float(f"1e{highest}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """Describes a metric family.

    Attributes:
        name: name in Prometheus, with the unit.
        help: description, one line.
        labels: names of the labels.
        ostrich: name in ``/stats.txt``, with label names in braces.
        ostrich_total: name there of the sum of all series, or empty.
        to_base: factor from the recorded unit to the unit of ``name``.
        to_ostrich: factor from the recorded unit to the unit of ``ostrich``.
        is_shared: whether all server processes measure the same thing, so that their maximum is shown, not their sum.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    ostrich: str
    ostrich_total: str = ""
    to_base: float = 1.0
    to_ostrich: float = 1.0
    is_shared: bool = False

    def ostrich_name(self, key: Key) -> str:
        """Return the name of one series in ``/stats.txt``."""
        return self.ostrich.format(**dict(zip(self.labels, label_values(key), strict=True)))


def label_values(key: Key) -> tuple[str, ...]:
    """Return the label values of a series as a tuple."""
    return (key,) if isinstance(key, str) else key


class _Values(Generic[_V]):
    """One value per series.

    Args:
        info: describes the family.
    """

    def __init__(self, info: MetricInfo) -> None:
        self.info = info
        self._values: dict[Key, _V] = {}

    def by_queue(self) -> dict[str, _V]:
        """Return the values of a family whose only label is the queue."""
        return {key: value for key, value in self._values.items() if isinstance(key, str)}

    def labels(self) -> Collection[Key]:
        """Return the labels of all series."""
        return self._values.keys()

    def forget(self, key: Key) -> None:
        """Drop a series."""
        self._values.pop(key, None)


class Counter(_Values[int]):
    """Counts events."""

    def __init__(self, info: MetricInfo) -> None:
        super().__init__(info)
        self._values = defaultdict(int)
        if not info.labels:
            self._values[()] = 0  # shown from the start, so that its first event counts in a rate

    def add(self, key: Key = (), count: int = 1) -> None:
        """Add ``count`` events to a series."""
        self._values[key] += count

    def value(self, key: Key = ()) -> int:
        """Return the count of a series; 0 if there is none."""
        return self._values.get(key, 0)

    def snapshot(self) -> CounterSnapshot:
        """Return a copy that another thread may read."""
        return CounterSnapshot(self.info, dict(self._values))


@dataclass(slots=True)
class Series:
    """The values of one distribution series, by bucket; the last bucket is above all bounds."""

    counts: list[int]
    sum: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    def copy(self) -> Series:
        """Return an independent copy."""
        return Series(self.counts.copy(), self.sum, self.minimum, self.maximum)

    def merged(self, other: Series) -> Series:
        """Return the combination of both series."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Series(
            counts,
            self.sum + other.sum,
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
        )


class Distribution:
    """Measures values: their number, sum and distribution.

    Args:
        info: describes the family.
        upper_bounds: the upper bounds of the buckets, in the recorded unit.
    """

    def __init__(self, info: MetricInfo, upper_bounds: tuple[float, ...]) -> None:
        self.info = info
        self._bounds = upper_bounds
        self._series: dict[Key, Series] = {}
        self._noted: defaultdict[Key, list[float]] = defaultdict(list)
        if not info.labels:
            self._new(())

    def observe(self, key: Key, value: float, times: int = 1) -> None:
        """Record a value in a series; the key of a family without labels is ``()``.

        ``times`` lets one value stand for a batch whose members differ little.
        """
        if times != 1:
            self._record(key, [value], times)
            return
        noted = self._noted[key]
        noted.append(value)
        if len(noted) >= _MOST_NOTED:
            self._record(key, self._noted.pop(key))

    def counts(self, key: Key = ()) -> list[int]:
        """Return the number of values of a series by bucket; empty if there is none."""
        series = self._recorded().get(key)
        return [] if series is None else series.counts.copy()

    def count(self, key: Key = ()) -> int:
        """Return the number of values of a series; 0 if there is none."""
        series = self._recorded().get(key)
        return 0 if series is None else series.count

    def labels(self) -> Collection[Key]:
        """Return the labels of all series."""
        return self._recorded().keys()

    def forget(self, key: Key) -> None:
        """Drop a series."""
        self._recorded().pop(key, None)

    def snapshot(self) -> DistributionSnapshot:
        """Return a copy that another thread may read."""
        series = {key: one.copy() for key, one in self._recorded().items()}
        return DistributionSnapshot(self.info, self._bounds, series)

    def _recorded(self) -> dict[Key, Series]:
        """Return the series, after sorting in all collected values."""
        while self._noted:
            self._record(*self._noted.popitem())
        return self._series

    def _record(self, key: Key, values: Sequence[float], times: int = 1) -> None:
        series = self._series.get(key) or self._new(key)
        for bucket, count in _Counts(map(partial(bisect_left, self._bounds), values)).items():
            series.counts[bucket] += count * times
        series.sum += sum(values) * times
        series.minimum = min(series.minimum, *values)
        series.maximum = max(series.maximum, *values)

    def _new(self, key: Key) -> Series:
        series = self._series[key] = Series([0] * (len(self._bounds) + 1))
        return series


@dataclass(slots=True)
class Gauge:
    """A value that is read when a page is requested.

    Attributes:
        info: describes the family, which has no labels.
        source: returns the value; a gauge without a source is not shown.
    """

    info: MetricInfo
    source: Callable[[], float | None] | None = field(default=None)

    def snapshot(self) -> GaugeSnapshot:
        """Read the value from the source."""
        value = None if self.source is None else self.source()
        return GaugeSnapshot(self.info, {} if value is None else {(): value})


class LabeledGauge(_Values[float]):
    """A gauge with labels, whose values are set by samplers."""

    def set(self, key: Key, value: float) -> None:
        """Set the value of a series."""
        self._values[key] = value

    def retain(self, keys: Container[Key]) -> None:
        """Drop all series but those of ``keys``."""
        self._values = {key: value for key, value in self._values.items() if key in keys}

    def snapshot(self) -> GaugeSnapshot:
        """Return a copy that another thread may read."""
        return GaugeSnapshot(self.info, dict(self._values))


class CounterSnapshot(NamedTuple):
    """The values of a counter, by series."""

    info: MetricInfo
    values: dict[Key, int]


class DistributionSnapshot(NamedTuple):
    """The values of a distribution, by series."""

    info: MetricInfo
    bounds: tuple[float, ...]
    series: dict[Key, Series]


class GaugeSnapshot(NamedTuple):
    """The values of a gauge, by series."""

    info: MetricInfo
    values: dict[Key, float]


Family = Counter | Distribution | Gauge | LabeledGauge
Snapshot = CounterSnapshot | DistributionSnapshot | GaugeSnapshot
