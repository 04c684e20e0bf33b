"""Statistics: what happened to a queue, a job class or a failure group in a minute or an hour."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

MINUTE = 60
HOUR = 3600

KEPT_SECONDS = {MINUTE: 26 * HOUR, HOUR: 38 * 24 * HOUR}
"""Resolution -> how long its periods are kept, in seconds: for a day and 30 days, and some more to compare with."""

FLEET = ""
"""Used as the name of a queue: all queues together."""

OTHER = "other"
"""Used as the name of a class: all classes beyond the first ``MOST_CLASSES`` of a queue."""

MOST_CLASSES = 200

MAX_NAME_CHARACTERS = 200

_MOST_RUNS = 10**9
"""Upper bound of a count in one report, which is about a few seconds: more than any worker can run."""

_STEPS = (1.0, 1.5, 2.2, 3.3, 4.7, 6.8)

BOUNDS_MS = (*(float(f"{step}e{decade}") for decade in range(-1, 8) for step in _STEPS), 1e8)
"""Upper bounds of the buckets of a ``Spread`` in milliseconds: six a decade, 0.1 ms to 28 hours.

There is one more bucket above.
"""


class StatisticsKind(IntEnum):
    """What statistics are about."""

    QUEUE = 0
    CLASS = 1
    FAILURE = 2


def bucket_of(milliseconds: float) -> int:
    """Return the bucket of a duration."""
    return bisect_left(BOUNDS_MS, milliseconds)


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of durations.

    Attributes:
        counts: how many durations fell into each bucket of ``BOUNDS_MS``; empty ones are left out.
    """

    counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts.values())

    def __add__(self, other: Spread) -> Spread:
        return Spread(Counter(self.counts) + Counter(other.counts))

    def quantile(self, share: float) -> float | None:
        """Return the duration in milliseconds that ``share`` of all do not exceed; None if there are none.

        It is interpolated within its bucket, so it may be a fifth too long or too short.
        """
        rank, passed = share * self.count, 0
        for bucket in sorted(self.counts):
            inside = self.counts[bucket]
            if inside and passed + inside >= rank:
                return _between(bucket, max(rank - passed, 0.0) / inside)
            passed += inside
        return None


def _between(bucket: int, share: float) -> float:
    """Return a duration within a bucket; evenly spaced by ratio, as the bounds are."""
    upper = BOUNDS_MS[min(bucket, len(BOUNDS_MS) - 1)]
    lower = BOUNDS_MS[min(bucket, len(BOUNDS_MS)) - 1] if bucket else 0.0
    return share * upper if lower == 0.0 else lower * math.exp(share * math.log(upper / lower))


@dataclass(frozen=True, slots=True)
class Statistics:
    """What happened in one period.

    Which numbers are set depends on what it is about: ``enqueued`` and ``started`` only for queues, ``run`` only for
    classes, and nothing but ``failed`` for failure groups.

    Attributes:
        queue: name of the queue; empty: all queues together.
        name: the class, or the id of the failure group; empty: the whole queue.
        start_ms: when the period began, epoch milliseconds; a minute or an hour long.
        enqueued: new jobs.
        started: jobs handed out to workers.
        succeeded: attempts that succeeded.
        failed: attempts that failed, including those that gave up a job or whose lease expired.
        given_up: jobs that failed for good.
        wait: how long jobs waited, from when they were due to their start.
        run: how long attempts ran.
    """

    queue: str
    name: str
    start_ms: int
    enqueued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    given_up: int = 0
    wait: Spread = field(default_factory=Spread)
    run: Spread = field(default_factory=Spread)

    def __add__(self, other: Statistics) -> Statistics:
        """Add what happened elsewhere, or later; queue, name and start stay."""
        return total((self, other))


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """What a worker reports about the attempts of a class that have ended since its previous report.

    Attributes:
        name: name of the class.
        succeeded, failed, given_up: see ``Statistics``.
        wait, run: likewise; waits may be a sample.
    """

    name: str
    succeeded: int = 0
    failed: int = 0
    given_up: int = 0
    wait: Spread = field(default_factory=Spread)
    run: Spread = field(default_factory=Spread)

    @property
    def is_valid(self) -> bool:
        """Whether its values are possible."""
        counts = self.succeeded, self.failed, self.given_up, *self.wait.counts.values(), *self.run.counts.values()
        return (
            1 <= len(self.name) <= MAX_NAME_CHARACTERS
            and self.name.isprintable()
            and all(0 <= count <= _MOST_RUNS for count in counts)
            and all(0 <= bucket <= len(BOUNDS_MS) for bucket in (*self.wait.counts, *self.run.counts))
        )


def total(statistics: Iterable[Statistics]) -> Statistics:
    """Return the sum over periods, queues or names; queue and name are those of the first, if there is one."""
    some = list(statistics)
    first = some[0] if some else Statistics(FLEET, "", 0)
    return Statistics(
        first.queue,
        first.name,
        first.start_ms,
        sum(one.enqueued for one in some),
        sum(one.started for one in some),
        sum(one.succeeded for one in some),
        sum(one.failed for one in some),
        sum(one.given_up for one in some),
        _merged(one.wait for one in some),
        _merged(one.run for one in some),
    )


def _merged(spreads: Iterable[Spread]) -> Spread:
    """Return the sum of spreads; fast even for very many."""
    counts: dict[int, int] = {}
    for spread in spreads:
        for bucket, count in spread.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return Spread(counts)
