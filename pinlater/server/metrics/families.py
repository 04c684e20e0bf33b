"""Counters, distributions and gauges: cheap to feed, plain data to read.

They are fed in the event loop's thread only; that is what makes them cheap. A family has one series for each
label value, or for each tuple of values when it has several labels. Label values must not be of the client's
making alone: only existing queues, methods and codes may get a series.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field
from typing import NamedTuple

Key = str | tuple[str, ...]
"""Label value of a series; a tuple when there are several labels; empty when there is none."""

_STEPS = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)  # E12: 12 round numbers, evenly spaced by ratio
COARSE = 4  # every fourth: 1, 2.2, 4.7, 10 …


def bounds(lowest: int, highest: int) -> tuple[float, ...]:
    """Return upper bounds of buckets from 10**lowest to 10**highest, twelve a decade."""
    fine = [float(f"{step}e{decade}") for decade in range(lowest, highest) for step in _STEPS]
    return (*fine, float(f"1e{highest}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a family is.

    Attributes:
        name: in Prometheus' style, with its unit.
        help: one line.
        labels: their names.
        ostrich: its name in ``/stats.txt``, label names in braces.
        ostrich_total: name there of all series taken together, or empty.
        to_base: recorded unit -> unit of ``name``.
        to_ostrich: recorded unit -> unit of ``ostrich``.
        is_common: whether all server processes see the same thing, so that the highest value is shown, not the sum.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    ostrich: str
    ostrich_total: str = ""
    to_base: float = 1.0
    to_ostrich: float = 1.0
    is_common: bool = False

    def ostrich_name(self, key: Key) -> str:
        """Return the name of one series in ``/stats.txt``."""
        return self.ostrich.format(**dict(zip(self.labels, label_values(key), strict=True)))


def label_values(key: Key) -> tuple[str, ...]:
    """Return a key as a tuple, whatever the number of labels."""
    return (key,) if isinstance(key, str) else key


class Counter:
    """Counts events.

    Args:
        about: its name and labels.
    """

    def __init__(self, about: About) -> None:
        self.about = about
        self._values: defaultdict[Key, int] = defaultdict(int)
        if not about.labels:
            self._values[()] = 0  # shown from the start, so that a rate can be taken of its first event

    def add(self, key: Key = (), count: int = 1) -> None:
        """Add events to a series."""
        self._values[key] += count

    def value(self, key: Key = ()) -> int:
        """Return the count of a series; 0 if there is none."""
        return self._values.get(key, 0)

    def by_queue(self) -> dict[str, int]:
        """Return the counts of a family whose only label is the queue."""
        return {key: count for key, count in self._values.items() if isinstance(key, str)}

    def labels(self) -> Collection[Key]:
        """Return the labels of all series."""
        return self._values.keys()

    def forget(self, key: Key) -> None:
        """Drop a series."""
        self._values.pop(key, None)

    def snapshot(self) -> CounterSnapshot:
        """Return a copy that another thread may read."""
        return CounterSnapshot(self.about, dict(self._values))


@dataclass(slots=True)
class Series:
    """Values of one distribution series, by bucket; the last bucket is what is above all bounds."""

    counts: list[int]
    sum: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def copy(self) -> Series:
        """Return an independent copy."""
        return Series(self.counts.copy(), self.sum, self.minimum, self.maximum)

    def merged(self, other: Series) -> Series:
        """Return both taken together."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Series(
            counts,
            self.sum + other.sum,
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
        )


class Distribution:
    """Measures values: how many, their sum, and how they spread.

    Args:
        about: its name and labels.
        upper_bounds: of the buckets, in the recorded unit.
    """

    def __init__(self, about: About, upper_bounds: tuple[float, ...]) -> None:
        self.about = about
        self._bounds = upper_bounds
        self._series: dict[Key, Series] = {}
        if not about.labels:
            self._new(())

    def observe(self, key: Key, value: float, times: int = 1) -> None:
        """Record a value in a series; the key of a family without labels is ``()``.

        ``times`` lets one value stand for a batch whose members differ little.
        """
        series = self._series.get(key) or self._new(key)
        series.counts[bisect_left(self._bounds, value)] += times
        series.sum += value * times
        if value < series.minimum:  # noqa: PLR1730 - min() and max() would double the cost of this method
            series.minimum = value
        if value > series.maximum:  # noqa: PLR1730 - likewise
            series.maximum = value

    def count(self, key: Key = ()) -> int:
        """Return how many values a series has; 0 if there is none."""
        return self._series[key].count if key in self._series else 0

    def labels(self) -> Collection[Key]:
        """Return the labels of all series."""
        return self._series.keys()

    def forget(self, key: Key) -> None:
        """Drop a series."""
        self._series.pop(key, None)

    def snapshot(self) -> DistributionSnapshot:
        """Return a copy that another thread may read."""
        series = {key: one.copy() for key, one in self._series.items()}
        return DistributionSnapshot(self.about, self._bounds, series)

    def _new(self, key: Key) -> Series:
        series = self._series[key] = Series([0] * (len(self._bounds) + 1))
        return series


@dataclass(slots=True)
class Gauge:
    """Shows a present value, asked for when somebody looks.

    Attributes:
        about: its name; gauges have no labels.
        source: returns the value; a gauge without one is not shown.
    """

    about: About
    source: Callable[[], float | None] | None = field(default=None)

    def snapshot(self) -> GaugeSnapshot:
        """Ask the source."""
        return GaugeSnapshot(self.about, None if self.source is None else self.source())


class Levels:
    """Present values of several series, set from time to time.

    Args:
        about: its name and labels.
    """

    def __init__(self, about: About) -> None:
        self.about = about
        self._values: dict[Key, float] = {}

    def set(self, key: Key, value: float) -> None:
        """Set the value of a series."""
        self._values[key] = value

    def keep(self, keys: Container[Key]) -> None:
        """Drop all other series."""
        self._values = {key: value for key, value in self._values.items() if key in keys}

    def labels(self) -> Collection[Key]:
        """Return the labels of all series."""
        return self._values.keys()

    def forget(self, key: Key) -> None:
        """Drop a series."""
        self._values.pop(key, None)

    def snapshot(self) -> LevelsSnapshot:
        """Return a copy that another thread may read."""
        return LevelsSnapshot(self.about, dict(self._values))


class CounterSnapshot(NamedTuple):
    """The values of a counter, by series."""

    about: About
    values: dict[Key, int]


class DistributionSnapshot(NamedTuple):
    """The values of a distribution, by series."""

    about: About
    bounds: tuple[float, ...]
    series: dict[Key, Series]


class GaugeSnapshot(NamedTuple):
    """The value of a gauge, or None."""

    about: About
    value: float | None


class LevelsSnapshot(NamedTuple):
    """The present values of several series."""

    about: About
    values: dict[Key, float]


Family = Counter | Distribution | Gauge | Levels
Snapshot = CounterSnapshot | DistributionSnapshot | GaugeSnapshot | LevelsSnapshot
