"""Statistics as stores keep them: counts by position, one line of text for each period, queue and name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from pinlater.model.statistics import BOUNDS_MS, KEPT_SECONDS, Spread, Statistics

_T = TypeVar("_T")

ENQUEUED, STARTED, SUCCEEDED, FAILED, GIVEN_UP = range(5)
"""Positions of the plain counts."""
WAIT, RUN = 100, 200
"""Positions of the first buckets of the wait and run times."""

MOST_ENTRIES = 200
"""Most entries of one call, since a transaction merges them."""

PAGE_PERIODS = 60
"""How many periods one query reads."""

Counts = Mapping[int, int]
"""Position -> count; missing positions have 0."""


class StatisticsKey(NamedTuple):
    """What counts are about.

    Attributes:
        resolution: length of the period in seconds.
        start_ms: when the period began.
        kind: see ``StatisticsKind``.
        queue: name of the queue; empty: all queues.
        name: class or failure group; empty: the queue as a whole.
    """

    resolution: int
    start_ms: int
    kind: int
    queue: str
    name: str


class StatisticsEntry(NamedTuple):
    """Counts to add to the stored ones, or read from the store."""

    key: StatisticsKey
    counts: Counts


class StatisticsQuery(NamedTuple):
    """Which statistics to read.

    Attributes:
        kind: see ``StatisticsKind``.
        resolution: length of a period in seconds.
        first_ms, end_ms: periods that began at or after ``first_ms``, which is the start of one, and before ``end_ms``.
        queues: names of queues; empty: all queues, without the sums over all queues.
        name: class or failure group; None: any.
    """

    kind: int
    resolution: int
    first_ms: int
    end_ms: int
    queues: Sequence[str] = ()
    name: str | None = None

    @property
    def starts(self) -> range:
        """When the periods began."""
        return range(self.first_ms, self.end_ms, self.resolution * 1000)

    def entry(self, start_ms: int, queue: str, name: str, counts: str) -> StatisticsEntry:
        """Return the entry of a stored row; ``counts`` is what ``encode`` has written."""
        return StatisticsEntry(StatisticsKey(self.resolution, start_ms, self.kind, queue, name), decode(counts))


def encode(counts: Counts) -> str:
    """Return counts as text: ``position:count`` for each, separated by spaces."""
    return " ".join(f"{position}:{count}" for position, count in counts.items())


def decode(text: str) -> dict[int, int]:
    """Read what ``encode`` has written."""
    return {int(position): int(count) for position, _, count in (pair.partition(":") for pair in text.split(" "))}


def merged(some: Counts, others: Counts) -> dict[int, int]:
    """Return the sums of two sets of counts."""
    found = dict(some)
    for position, count in others.items():
        found[position] = found.get(position, 0) + count
    return found


def record(entry: StatisticsEntry) -> Statistics:
    """Return an entry as a record."""
    (_, start_ms, _, queue, name), counts = entry
    return Statistics(
        queue,
        name,
        start_ms,
        counts.get(ENQUEUED, 0),
        counts.get(STARTED, 0),
        counts.get(SUCCEEDED, 0),
        counts.get(FAILED, 0),
        counts.get(GIVEN_UP, 0),
        _spread(counts, WAIT),
        _spread(counts, RUN),
    )


def _spread(counts: Counts, first: int) -> Spread:
    end = first + len(BOUNDS_MS) + 1
    return Spread({position - first: count for position, count in counts.items() if first <= position < end})


def expired_before_ms(now_ms: int, resolution: int) -> int:
    """Return the time before which expired periods began, in epoch milliseconds."""
    return now_ms - KEPT_SECONDS[resolution] * 1000


def chunks(values: Iterable[_T], size: int) -> Iterable[list[_T]]:
    """Yield values in lists of up to ``size``."""
    iterator = iter(values)
    while some := list(islice(iterator, size)):
        yield some


class StatisticsStore(Protocol):
    """The part of a store that keeps statistics; see ``Store`` for what holds for every verb."""

    async def add_statistics(self, entries: Sequence[StatisticsEntry]) -> None:
        """Add counts to the stored ones; all keys differ, and there are at most ``MOST_ENTRIES``.

        Names contain no NUL. If it is unknown whether the commit succeeded, the call returns, so that nothing counts
        twice; if it raises, nothing was added.

        State: jobs unchanged.
        Repeat: not safe; the counts would be added again.
        """

    async def read_statistics(self, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
        """Return up to ``limit`` entries, ordered by period, queue and name.

        Expired entries may be among them until they are deleted.
        """

    async def forget_statistics(self, limit: int) -> int:
        """Delete up to ``limit`` expired entries of each resolution; see ``KEPT_SECONDS``.

        Return how many; 0 if the store itself expires them.

        State: jobs unchanged.
        Repeat: safe.
        """
