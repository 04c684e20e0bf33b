"""What is failing now: failure groups with their trends, largest first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.errors import PinLaterError
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.statistics import HOUR, Statistics, StatisticsKind

MOST_GROUPS = 1000
"""Groups that are read: the largest ones."""

COUNTED_TO = 10_000
"""Jobs of a group are counted to this number on each shard."""

TREND_HOURS = 24
_QUEUES_AT_ONCE = 4
"""Queues per call: each has up to 201 groups an hour, and an answer at most 20,000 rows."""
_HOUR_MS = HOUR * 1000

Trends = dict[tuple[str, int], list[float | None]]
"""Queue and group id -> failed attempts in each of the last 24 hours."""


class FailingGroup(NamedTuple):
    """A failure group as the page shows it.

    Attributes:
        group: the group.
        age_seconds: time since its first failure.
    """

    group: FailureGroup
    age_seconds: float

    @property
    def is_new(self) -> str:
        """``hour`` or ``day`` if the group was first seen within the last hour or day, else empty."""
        if self.age_seconds < HOUR:
            return "hour"
        return "day" if self.age_seconds < 24 * HOUR else ""


class Order(NamedTuple):
    """An order of groups: its name in addresses, its text in pages, and the sort key."""

    name: str
    words: str
    key: Callable[[FailingGroup], tuple[float, ...]]


ORDERS = {
    order.name: order
    for order in (
        Order("jobs", "most jobs", lambda one: (-one.group.jobs, -one.group.last_ms)),
        Order("last", "last failure", lambda one: (-one.group.last_ms,)),
        Order("first", "newest", lambda one: (-one.group.first_ms,)),
    )
}


class Selection(NamedTuple):
    """Which groups are shown: the name in addresses, the text in pages, and the condition."""

    name: str
    words: str
    includes: Callable[[FailingGroup], bool]


SELECTIONS = {
    selection.name: selection
    for selection in (
        Selection("all", "all", lambda _: True),
        Selection("given-up", "given up", lambda one: one.group.given_up > 0),
        Selection("retrying", "retrying", lambda one: one.group.retrying > 0),
        Selection("new", "new in 24 h", lambda one: bool(one.is_new)),
    )
}


def failing_groups(groups: Iterable[FailureGroup], job: str, now_seconds: float) -> list[FailingGroup]:
    """Return the groups that have jobs and whose class name contains ``job``."""
    wanted = job.lower()
    return [
        FailingGroup(group, max(now_seconds - group.first_ms / 1000, 0.0))
        for group in groups
        if group.jobs and wanted in group.job.lower()
    ]


async def read_trends(client: AsyncVerbs, queues: Collection[str], now: float) -> Trends:
    """Return the failed attempts of all groups of some queues in each of the 24 hours to ``now``; empty if unknown."""
    now_ms = int(now * 1000)
    first_ms = now_ms // _HOUR_MS * _HOUR_MS - (TREND_HOURS - 1) * _HOUR_MS
    trends: Trends = {}
    names = sorted(queues)
    try:
        for start in range(0, len(names), _QUEUES_AT_ONCE):
            some = names[start : start + _QUEUES_AT_ONCE]
            found = await client.statistics(StatisticsKind.FAILURE, resolution=HOUR, since_ms=first_ms, queues=some)
            _add(trends, found, first_ms)
    except PinLaterError:  # the groups are worth showing without trends
        return {}
    return trends


def _add(trends: Trends, found: Sequence[Statistics], first_ms: int) -> None:
    for one in found:
        hour = (one.start_ms - first_ms) // _HOUR_MS
        if one.name.isdecimal() and 0 <= hour < TREND_HOURS:
            line = trends.setdefault((one.queue, int(one.name)), [0.0] * TREND_HOURS)
            line[hour] = (line[hour] or 0) + one.failed
