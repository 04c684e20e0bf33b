"""Queues and searches of stores that keep a job as a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pinlater.model.jobs import Position
from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.records import ALL_PRIORITIES, JobFilter

_BEGIN, _END = -(2**63), 2**63 - 1


BODY = 10
"""Place of the body in the row of a job that a store reads; the columns up to it are the same in all stores."""


def position_of(row: Sequence[Any]) -> Position:
    """Return where a scan continues after the job of a row."""
    return Position(row[7], row[0])


class Queue(NamedTuple):
    """A queue as a store keeps it. ``prefixes`` are what its descriptors begin with, one for each priority from 1."""

    id: int
    name: str
    prefixes: tuple[str, ...]

    @property
    def shard(self) -> str:
        """The shard of its jobs."""
        return self.prefixes[0].split(":")[1][1:]

    @property
    def head(self) -> str:
        """What all its descriptors on this shard begin with, up to the priority."""
        return self.prefixes[0].removesuffix("1:")


class JobSearch(NamedTuple):
    """The jobs that a count, scan or deletion searches for.

    Attributes:
        queue: the queue to search.
        which: which of its jobs to find.
        now: the time by which jobs are due or future, epoch milliseconds.
        seconds: total time for searching bodies.
        is_oldest_first: whether a scan returns the earliest run_after first, instead of the latest.
    """

    queue: Queue
    which: JobFilter
    now: int
    seconds: float
    is_oldest_first: bool = False

    @property
    def priorities(self) -> Sequence[int]:
        if self.which.failure_group is not None or self.which.key is not None:
            return [ALL_PRIORITIES]
        priority = self.which.priority
        return range(1, len(self.queue.prefixes) + 1) if priority is None else [priority]

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest run_after that match."""
        if self.which.waits_for_key:
            return WAITS_FOR_KEY_MS, _END
        if self.which.is_future is None:
            return _BEGIN, _END
        return (self.now + 1, _END) if self.which.is_future else (_BEGIN, self.now)

    def start(self, position: Position | None) -> tuple[int, int]:
        """Return the run_after and id behind which a scan continues; ``position`` None: it begins."""
        first, last = self.bounds
        begin = Position(first, _BEGIN) if self.is_oldest_first else Position(last, _END)
        run_after, local_id, _ = (max if self.is_oldest_first else min)(position or begin, begin)
        return run_after, local_id

    @property
    def end(self) -> int:
        """The last run_after of a scan."""
        first, last = self.bounds
        return last if self.is_oldest_first else first

    def pattern(self) -> BodyPattern | None:
        """Return the pattern that bodies have to match, if any. Compiling it takes a while: call this in a thread."""
        return BodyPattern(self.which.body_regex, self.seconds) if self.which.body_regex else None
