"""Collects counts of job classes and failure groups until they are written to the store."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.model.statistics import FLEET, MOST_CLASSES, OTHER, RunStatistics, StatisticsKind
from pinlater.server.backends.statistics import FAILED, GIVEN_UP, RUN, SUCCEEDED, WAIT, Counts, merged

Subject = tuple[StatisticsKind, str, str]
"""Kind, queue and name."""


_MOST_SUBJECTS = 20_000
"""Most subjects between two writes; the counts of others are dropped."""

_MOST_NAMES = 100_000
"""Most names of all queues together, between two calls of ``forget_names``."""


class StatisticsBuffer:
    """Adds up the counts that come with acks, until they are taken.

    Between two calls of ``forget_names``, a queue has at most ``MOST_CLASSES`` names of a kind; further names are
    counted together as ``OTHER``.
    """

    def __init__(self) -> None:
        self._counts: dict[Subject, Counts] = {}
        self._names: dict[tuple[StatisticsKind, str], set[str]] = {}
        self._name_count = 0

    def add_runs(self, queue: str, runs: Iterable[RunStatistics]) -> None:
        """Add what a worker reports about the classes of a queue."""
        for one in runs:
            counts = {SUCCEEDED: one.succeeded, FAILED: one.failed, GIVEN_UP: one.given_up}
            for first, spread in ((WAIT, one.wait), (RUN, one.run)):
                counts |= {first + bucket: count for bucket, count in spread.counts.items()}
            for place in (queue, FLEET):
                self._add(StatisticsKind.CLASS, place, one.name, counts)

    def add_failures(self, queue: str, group_id: int, failed: int) -> None:
        """Add failed attempts of a failure group."""
        self._add(StatisticsKind.FAILURE, queue, str(group_id), {FAILED: failed})

    def _add(self, kind: StatisticsKind, queue: str, name: str, counts: Counts) -> None:
        subject = kind, queue, self._name_of(kind, queue, name)
        if subject not in self._counts and len(self._counts) >= _MOST_SUBJECTS:
            return
        self._counts[subject] = merged(self._counts.get(subject, {}), counts)

    def _name_of(self, kind: StatisticsKind, queue: str, name: str) -> str:
        """Return the name under which to count: the given one, or ``OTHER`` if there are too many."""
        names = self._names.get((kind, queue), set())
        if name in names:
            return name
        if len(names) >= MOST_CLASSES or self._name_count >= _MOST_NAMES:
            return OTHER
        names.add(name)
        self._names[kind, queue] = names
        self._name_count += 1
        return name

    def take(self) -> dict[Subject, Counts]:
        """Return and clear the counts added since the last call."""
        taken, self._counts = self._counts, {}
        return taken

    def forget_names(self) -> None:
        """Forget which names were counted, so that others get their own counts from now on."""
        self._names.clear()
        self._name_count = 0
