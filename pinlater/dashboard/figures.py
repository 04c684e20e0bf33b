"""What the server processes have counted and measured, as plain data, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Labels = tuple[str, ...]


class Spread(NamedTuple):
    """Measured values by bucket; the last bucket is what is above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def size(self) -> int:
        """How many values there are."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Their mean; None if there are none."""
        return self.sum / self.size if self.size else None

    def since(self, older: Spread | None) -> Spread:
        """Return what was added since an older state of the same spread."""
        if older is None or older.size > self.size:  # all processes were replaced
            return self
        added = tuple(now - then for now, then in zip(self.counts, older.counts, strict=True))
        return Spread(self.bounds, added, self.sum - older.sum)

    def quantile(self, share: float) -> float | None:
        """Return the value that ``share`` (0 to 1) of all do not exceed, to about a tenth; None if there are none.

        Of a difference the true extremes are not known, so a bucket's own bounds have to do.
        """
        rank, passed = share * self.size, 0
        for index, count in enumerate(self.counts):
            if count and passed + count >= rank:
                low = self.bounds[index - 1] if index else 0.0
                high = self.bounds[min(index, len(self.bounds) - 1)]
                return low + (high - low) * (rank - passed) / count
            passed += count
        return None


class Process(NamedTuple):
    """One server process that answers.

    Attributes:
        pid: its number.
        reason: why it takes no calls now; None if it does.
        connections: open ones.
        parked: dequeues that wait for a job.
        calls: how many it has answered.
        version: of its program; empty if it does not tell.
        started_ms: when it began, epoch milliseconds; 0 if it does not tell.
        memory_bytes: what it holds; 0 if that is not known.
    """

    pid: int
    reason: str | None
    connections: int
    parked: int
    calls: int
    version: str = ""
    started_ms: int = 0
    memory_bytes: int = 0


class Shard(NamedTuple):
    """One shard of the store, as the server processes see it.

    Attributes:
        name: as in descriptors.
        place: where it is.
        since_ms: how long it has been well, or ill; epoch milliseconds.
        is_dequeue_only: takes no new jobs.
        error: why it is ill; empty if it is not.
        connections: open ones to its server; None where there are none.
        processes: how many server processes see it.
        ill_in: to how many of them it does not answer.
    """

    name: str
    place: str
    since_ms: int
    is_dequeue_only: bool = False
    error: str = ""
    connections: int | None = None
    processes: int = 1
    ill_in: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of one moment, by name of the family and values of its labels; gauges are sums over processes."""

    processes: list[Process] = field(default_factory=list)
    counters: Mapping[str, Mapping[Labels, int]] = field(default_factory=dict)
    spreads: Mapping[str, Mapping[Labels, Spread]] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)

    def total(self, counter: str, queue: str) -> int:
        """Return a counter of one queue."""
        return self.counters.get(counter, {}).get((queue,), 0)

    def level(self, name: str, queue: str) -> float | None:
        """Return a present value of one queue; None if it is not known."""
        return self.levels.get(name, {}).get((queue,))

    def spread(self, name: str, *labels: str) -> Spread | None:
        """Return one spread; None if nothing was measured."""
        return self.spreads.get(name, {}).get(labels)

    def queues(self) -> set[str]:
        """Return the queues that anything was counted of."""
        return {labels[0] for name in (ENQUEUED, DEQUEUED) for labels in self.counters.get(name, {})}


ENQUEUED = "pinlater_jobs_enqueued_total"
DEQUEUED = "pinlater_jobs_dequeued_total"
SUCCEEDED = "pinlater_acks_succeeded_total"
FAILED = "pinlater_acks_failed_total"
WAITED_MS = "pinlater_dequeue_delay_seconds"
"""Recorded in milliseconds."""
CALL_SECONDS = "pinlater_call_seconds"
ERRORS = "pinlater_errors_total"
COMMIT_REQUESTS = "pinlater_commit_requests"
COMMIT_SECONDS = "pinlater_commit_seconds"
PARKED = "pinlater_parked_dequeues"
CONNECTIONS = "pinlater_connections"
STORE_WAITING = "pinlater_store_waiting"
SHARD_SECONDS = "pinlater_shard_call_seconds"
SHARD_FAILURES = "pinlater_shard_failures_total"
OLDEST_SECONDS = "pinlater_queue_oldest_due_age_seconds"

NAMES = (
    *(ENQUEUED, DEQUEUED, SUCCEEDED, FAILED, WAITED_MS, CALL_SECONDS, ERRORS),
    *(COMMIT_REQUESTS, COMMIT_SECONDS, PARKED, CONNECTIONS, STORE_WAITING),
    *(SHARD_SECONDS, SHARD_FAILURES, OLDEST_SECONDS),
)
"""All families that are read here."""
