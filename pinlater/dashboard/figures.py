"""Metrics of the server processes as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.model.histogram import Histogram

Labels = tuple[str, ...]
_EMPTY = Histogram((), (), 0.0)


class ServerProcess(NamedTuple):
    """A server process that responds.

    Attributes:
        pid: process id.
        reason: why it is not ready for calls; None if it is.
        connections: number of open connections.
        parked: number of dequeues that wait for a job.
        calls: number of answered calls.
        version: version of PinLater; empty if unknown.
        started_ms: epoch milliseconds of its start; 0 if unknown.
        memory_bytes: resident memory; 0 if unknown.
    """

    pid: int
    reason: str | None
    connections: int
    parked: int
    calls: int
    version: str = ""
    started_ms: int = 0
    memory_bytes: int = 0


class ShardHealth(NamedTuple):
    """Health of one shard of the store, as the server processes see it.

    Attributes:
        name: name in descriptors.
        address: address or file of the shard.
        since_ms: epoch milliseconds of the last change of its health.
        is_dequeue_only: whether it accepts no new jobs.
        error: why it is unhealthy; empty if it is healthy.
        connections: number of open connections to its server; None for a file.
        processes: number of server processes that use it.
        unhealthy_in: number of these processes that it does not answer.
    """

    name: str
    address: str
    since_ms: int
    is_dequeue_only: bool = False
    error: str = ""
    connections: int | None = None
    processes: int = 1
    unhealthy_in: int = 0


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """All metrics at one moment, by name and label values; gauges are sums over processes."""

    processes: list[ServerProcess] = field(default_factory=list)
    counters: Mapping[str, Mapping[Labels, int]] = field(default_factory=dict)
    histograms: Mapping[str, Mapping[Labels, Histogram]] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    shards: list[ShardHealth] = field(default_factory=list)

    @property
    def is_one_file(self) -> bool:
        """Whether the store is a file of this server, so that no other server's jobs are missing in the metrics."""
        return all(shard.connections is None for shard in self.shards)

    def total(self, counter: str, queue: str | None = None) -> int:
        """Return the value of a queue's counter; None: the sum over all queues."""
        values = self.counters.get(counter, {})
        return sum(values.values()) if queue is None else values.get((queue,), 0)

    def level(self, name: str, queue: str) -> float | None:
        """Return the value of a queue's gauge; None if unknown."""
        return self.levels.get(name, {}).get((queue,))

    def histogram(self, name: str, *labels: str) -> Histogram | None:
        """Return a histogram; None if nothing was measured."""
        return self.histograms.get(name, {}).get(labels)

    def added(self, before: ServerFigures, name: str, *labels: str) -> Histogram:
        """Return what was measured since an earlier moment."""
        histogram = self.histogram(name, *labels)
        return _EMPTY if histogram is None else histogram.since(before.histogram(name, *labels))

    def queues(self) -> set[str]:
        """Return the queues that have counters."""
        return {labels[0] for name in (ENQUEUED, DEQUEUED) for labels in self.counters.get(name, {})}


ENQUEUED = "pinlater_jobs_enqueued_total"
DEQUEUED = "pinlater_jobs_dequeued_total"
SUCCEEDED = "pinlater_acks_succeeded_total"
FAILED = "pinlater_acks_failed_total"
WAITED_MS = "pinlater_dequeue_delay_seconds"
"""Its values are recorded in milliseconds, whatever the name says."""
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
WAITING_FOR_KEY = "pinlater_queue_waiting_for_key_jobs"
DUE_RETRYING = "pinlater_queue_due_retrying_jobs"
STORE_SECONDS = "pinlater_store_seconds"
FAILED_COMMITS = "pinlater_commits_failed_total"
CALLS_SHED = "pinlater_calls_shed_total"
STORE_BYTES = "pinlater_store_bytes"
FREE_BYTES = "pinlater_store_free_bytes"
WARNING_THRESHOLD = "pinlater_warning_threshold"
CERTIFICATE_ENDS = "pinlater_tls_certificate_expiry_timestamp_seconds"
STATE_GAUGES = {
    "pending": "pinlater_queue_backlog_jobs",
    "retrying": "pinlater_queue_retrying_jobs",
    "scheduled": "pinlater_queue_scheduled_jobs",
    "running": "pinlater_queue_running_jobs",
    "failed": "pinlater_queue_failed_jobs",
}
"""Display state -> number of its jobs in each queue, as sampled by the server.

Pending includes due jobs that are retrying; scheduled leaves out jobs that wait for their key.
"""

NAMES = (
    *(ENQUEUED, DEQUEUED, SUCCEEDED, FAILED, WAITED_MS, CALL_SECONDS, ERRORS),
    *(COMMIT_REQUESTS, COMMIT_SECONDS, PARKED, CONNECTIONS, STORE_WAITING),
    *(SHARD_SECONDS, SHARD_FAILURES, OLDEST_SECONDS, WAITING_FOR_KEY, DUE_RETRYING),
    *(STORE_SECONDS, FAILED_COMMITS, CALLS_SHED, STORE_BYTES, FREE_BYTES, WARNING_THRESHOLD),
    CERTIFICATE_ENDS,
    *STATE_GAUGES.values(),
)
"""All metrics that the dashboard reads."""
