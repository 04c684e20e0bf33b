"""Statistics as stores keep them: counts by position, as one line of text for each period, queue and name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from pinlater.model.statistics import BOUNDS_MS, KEPT_SECONDS, Spread, Statistics

_T = TypeVar("_T")

ENQUEUED, STARTED, SUCCEEDED, FAILED, GIVEN_UP = range(5)
"""Positions of the plain counts."""
WAIT, RUN = 100, 200
"""Positions of the first buckets."""

MOST_ENTRIES = 200
"""Entries of one call; a transaction merges no more of them."""

PAGE_PERIODS = 60
"""Periods that are read at once."""

Counts = Mapping[int, int]
"""Position -> count; positions that are not there have 0."""


class StatisticsKey(NamedTuple):
    """What counts are about.

    Attributes:
        resolution: seconds of the period.
        start_ms: when it began.
        kind: see ``StatisticsKind``.
        queue: its name; empty: all queues.
        name: class or failure group; empty: the queue as a whole.
    """

    resolution: int
    start_ms: int
    kind: int
    queue: str
    name: str


class StatisticsEntry(NamedTuple):
    """Counts to be added to those that are stored, or read from there."""

    key: StatisticsKey
    counts: Counts


class StatisticsQuery(NamedTuple):
    """Which statistics are wanted.

    Attributes:
        kind: see ``StatisticsKind``.
        resolution: seconds of a period.
        first_ms, end_ms: periods that began at or after ``first_ms``, which is the start of one, and before ``end_ms``.
        queues: names; none: all queues, without the one that stands for all of them.
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
        """Return what is stored of one of these periods as an entry; ``counts`` as ``encode`` has written it."""
        return StatisticsEntry(StatisticsKey(self.resolution, start_ms, self.kind, queue, name), decode(counts))


def encode(counts: Counts) -> str:
    """Return counts as text: ``position:count`` for each, separated by spaces."""
    return " ".join(f"{position}:{count}" for position, count in counts.items())


def decode(text: str) -> dict[int, int]:
    """Read what ``encode`` has written."""
    return {int(position): int(count) for position, _, count in (pair.partition(":") for pair in text.split(" "))}


def merged(some: Counts, others: Counts) -> dict[int, int]:
    """Return the sums of both."""
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
    """Return the time before which periods began that are no longer kept."""
    return now_ms - KEPT_SECONDS[resolution] * 1000


def chunks(values: Iterable[_T], size: int) -> Iterable[list[_T]]:
    """Yield values in lists of up to ``size``."""
    iterator = iter(values)
    while some := list(islice(iterator, size)):
        yield some


class StatisticsStore(Protocol):
    """The part of a store that keeps statistics; see ``Store`` for what holds for every verb."""

    async def add_statistics(self, entries: Sequence[StatisticsEntry]) -> None:
        """Add counts to those that are stored; all keys differ, and there are at most ``MOST_ENTRIES``.

        Names have no NUL. If the outcome of a commit is unknown, the call returns, so that nothing counts twice; if it
        raises, nothing was added.

        State: jobs unchanged.
        Repeat: not safe; all counts add up.
        """

    async def read_statistics(self, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
        """Return up to ``limit`` entries, in the order of periods, queues and names.

        What has expired may be there for some more time.
        """

    async def forget_statistics(self, limit: int) -> int:
        """Delete up to ``limit`` entries of each resolution that have expired; see ``KEPT_SECONDS``.

        Return how many; 0 where the store expires them by itself.

        State: jobs unchanged.
        Repeat: safe.
        """
