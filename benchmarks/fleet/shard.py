"""Shards: statements take them processor time, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from benchmarks.fleet.costs import CALL_STATEMENTS, JOB_DATABASE_US, STATEMENT_DATABASE_US
from benchmarks.fleet.timeline import Timeline

READ_STATEMENTS = 1
"""One query: which priorities of a queue have due jobs, or which of many queues do."""

ENQUEUE_STATEMENTS = CALL_STATEMENTS
EMPTY_CLAIM_STATEMENTS = 5
"""Begin, what is due, candidates, when the next job falls due, commit."""

CLAIM_STATEMENTS = EMPTY_CLAIM_STATEMENTS + 1
"""One more marks the jobs."""

ACK_STATEMENTS = 1
"""One for all jobs of a batch that are on the same shard."""


class Job(NamedTuple):
    """A job: its number, its queue, the number of its shard, and when its enqueue was answered."""

    number: int
    queue: int
    shard: int
    stored_at: float


class Shard:
    """A shard, with one processor and the due jobs of all queues, those of each queue in order.

    Attributes:
        number: its position among the shards.
        statements: number of statements requested so far.
        busy_seconds: processor time requested so far.

    Args:
        timeline: the simulated time.
        number: as the attribute.
    """

    def __init__(self, timeline: Timeline, number: int) -> None:
        self.number = number
        self.statements = 0
        self.busy_seconds = 0.0
        self._timeline = timeline
        self._free_at = 0.0
        self._due: dict[int, deque[Job]] = {}

    @property
    def due_count(self) -> int:
        """Return how many jobs are due."""
        return sum(map(len, self._due.values()))

    def ask(self, statements: int, *, jobs: int = 0) -> float:
        """Request statements that claim or acknowledge ``jobs`` jobs; return the seconds until they are carried out."""
        now = self._timeline.now
        seconds = (statements * STATEMENT_DATABASE_US + jobs * JOB_DATABASE_US) / 1e6
        self.statements += statements
        self.busy_seconds += seconds
        self._free_at = max(self._free_at, now) + seconds
        return self._free_at - now

    def add(self, number: int, queue: int) -> None:
        """Store a job that is due now."""
        self._due.setdefault(queue, deque()).append(Job(number, queue, self.number, self._timeline.now))

    def claim(self, queue: int, most: int) -> list[Job]:
        """Remove and return the first due jobs of a queue."""
        due = self._due.get(queue)
        if due is None:
            return []
        claimed = [due.popleft() for _ in range(min(most, len(due)))]
        if not due:
            del self._due[queue]
        return claimed

    @property
    def due_queues(self) -> Collection[int]:
        """Return the queues that have due jobs here."""
        return self._due.keys()
