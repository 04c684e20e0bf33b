"""The jobs that a dequeue has claimed so far from the shards it asked."""

from __future__ import annotations

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, Dequeued
from pinlater.server.backends.sharded.merges import earliest


class DequeueAccumulator:
    """Combines the answers of shards into one.

    Attributes:
        jobs: the jobs, shard by shard, each shard's in its order.
        wanted: how many more jobs are wanted.
        free_bytes: how many more bytes fit into the answer.
        last: the last answer that was added.
        has_more: whether more jobs may be due.

    Args:
        limit: most jobs.
        max_bytes: most bytes of the answer.
    """

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.jobs: list[DequeuedJob] = []
        self.last = Dequeued([], None, has_more=False)
        self.wanted = limit
        self.free_bytes = max_bytes
        self._held: dict[str, list[DequeuedJob]] = {}
        self._max_bytes = max_bytes
        self._next_due_ms: int | None = None
        self.has_more = False
        self._is_held = False
        self._lets_through = False

    def held_at(self, shard: str) -> list[DequeuedJob]:
        """Return the list of jobs that one shard has handed out, to which the caller adds."""
        return self._held.setdefault(shard, [])

    def add(self, found: Dequeued) -> bool:
        """Add the jobs that a shard has handed out; return whether there are enough now."""
        self.last = found
        self.jobs += found.jobs
        self.wanted -= len(found.jobs)
        self.free_bytes -= sum(len(job.body) + JOB_OVERHEAD_BYTES for job in found.jobs)
        self.has_more = self.has_more or found.has_more
        self._is_held = self._is_held or found.is_held
        self._lets_through = self._lets_through or found.lets_through
        self.expect(found.next_due_ms)
        return self.is_full

    @property
    def is_full(self) -> bool:
        """Whether to ask no more shards."""
        # The next shard hands out a first job even if it does not fit, so never ask with little space left.
        return self.wanted <= 0 or self.free_bytes < self._max_bytes / 2

    def expect(self, due_ms: int | None) -> None:
        """Record when a job falls due."""
        self._next_due_ms = earliest((self._next_due_ms, due_ms))

    def dequeued(self) -> Dequeued:
        """Return the combined answer."""
        due_ms = None if self.has_more or self._is_held else self._next_due_ms
        has_more = self.has_more and not self._is_held
        return Dequeued(self.jobs, due_ms, has_more, self._is_held, self._lets_through)
