"""Declare each metric of the server once.

Names in ``/stats.txt`` are those of the original service where it had the metric.
"""
# ruff: noqa: RUF009 - the calls in the class body declare the metrics; each object of the class gets its own

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pinlater.server.metrics.families import (
    Counter,
    Distribution,
    Family,
    Gauge,
    LabeledGauge,
    MetricInfo,
    Snapshot,
    bounds,
)

F = TypeVar("F", bound=Family)

# Ostrich shows times in milliseconds, Prometheus in seconds, whichever unit is recorded.
_MS_TO_SECONDS = 0.001
_SECONDS_TO_MS = 1000.0

_CALLS = partial(Distribution, upper_bounds=bounds(-5, 3))  # seconds: 10 µs to 17 minutes
_DELAYS = partial(Distribution, upper_bounds=bounds(0, 8))  # milliseconds: 1 ms to 28 hours
_BYTES = partial(Distribution, upper_bounds=bounds(0, 7))
_SIZES = partial(Distribution, upper_bounds=bounds(0, 4))


def _metric(kind: Callable[[MetricInfo], F], name: str, help_text: str, ostrich: str, *labels: str, **more: Any) -> F:
    """Declare a metric; ``*`` in its names stands for its attribute's name, ``more`` are fields of ``MetricInfo``."""

    def make(attribute: str) -> F:
        full_name, ostrich_name = (text.replace("*", attribute) for text in (f"pinlater_{name}", ostrich))
        return kind(MetricInfo(name=full_name, help=help_text, labels=labels, ostrich=ostrich_name, **more))

    declared: F = field(metadata={"make": make})
    return declared


def _counter(help_text: str, ostrich: str, *labels: str, name: str = "*") -> Counter:
    return _metric(Counter, f"{name}_total", help_text, ostrich, *labels)


def _per_queue(help_text: str, suffix: str) -> Counter:
    return _counter(help_text, "{queue}_" + suffix, "queue")


def _seconds(help_text: str, ostrich: str, *labels: str) -> Distribution:
    return _metric(_CALLS, "*", help_text, ostrich, *labels, to_ostrich=_SECONDS_TO_MS)


def _delay_ms(help_text: str, noun: str) -> Distribution:
    return _metric(_DELAYS, f"{noun}_seconds", help_text, "{queue}_*", "queue", to_base=_MS_TO_SECONDS)


def _gauge(help_text: str, ostrich: str, *, name: str = "*", is_shared: bool = False) -> Gauge:
    return _metric(Gauge, name, help_text, ostrich, is_shared=is_shared)


def _queue_gauge(help_text: str) -> LabeledGauge:
    return _metric(LabeledGauge, "queue_*", help_text, "{queue}_*", "queue")


def _worker_gauge(help_text: str, noun: str) -> LabeledGauge:
    return _metric(LabeledGauge, f"reported_{noun}", help_text, "worker_{worker}_" + noun, "worker")


def _shard_gauge(help_text: str, *, name: str = "*", noun: str = "*") -> LabeledGauge:
    return _metric(LabeledGauge, name, help_text, "shard_{shard}_" + noun, "shard")


@dataclass(init=False, eq=False, repr=False)
class Metrics:
    """The metrics of one server process; update them in the event loop's thread.

    ::

        metrics.jobs_enqueued.add(queue, len(jobs))
        metrics.errors.add((method, "QUEUE_NOT_FOUND"))
        metrics.call_seconds.observe(method, seconds)
        metrics.connections.source = lambda: len(open_connections)
    """

    # Calls and connections

    call_seconds: Distribution = _seconds(
        "Time to answer a call, without the wait that the call itself asked for",
        "PinLaterService.{method}_msec",
        "method",
    )
    errors: Counter = _counter("Calls answered with an error", "PinLater.{method}.errors.{code}", "method", "code")
    connections: Gauge = _gauge("Open client connections", "connections")
    connections_opened: Counter = _counter("Connections accepted", "connections-opened")
    connections_refused: Counter = _counter("Connections refused because too many were open", "connections-refused")
    handshakes_failed: Counter = _counter(
        "Connections closed because the TLS handshake failed", "handshakes-failed", name="tls_handshakes_failed"
    )
    calls_shed: Counter = _counter("Calls refused because the store is overloaded", "PinLater.{method}.shed", "method")
    frames_refused: Counter = _counter("Connections closed because of invalid data", "frames-refused")

    # Jobs

    jobs_enqueued: Counter = _per_queue("Jobs stored", "enqueue")
    jobs_imported: Counter = _per_queue("Jobs imported from another store", "import")
    jobs_dequeued: Counter = _per_queue("Jobs handed out, including dry runs", "dequeue")
    acks_succeeded: Counter = _per_queue("Jobs acked as succeeded", "ack_succeeded")
    acks_failed: Counter = _per_queue("Jobs acked as failed", "ack_failed")
    jobs_given_up: Counter = _per_queue("Jobs that became FAILED, by an ack or an expired claim", "given_up")
    jobs_cancelled: Counter = _per_queue(
        "Jobs cancelled: waiting ones at once, running ones when they have stopped", "cancelled"
    )
    checkpoints: Counter = _per_queue("Checkpoints stored", "checkpoint")
    checkpoint_noops: Counter = _per_queue("Checkpoints ignored because the job was not held", "checkpoint_noop")
    stale_acks: Counter = _per_queue("Acks ignored because their claim had ended", "stale_ack")
    stale_checkpoints: Counter = _per_queue("Checkpoints ignored because their claim had ended", "stale_checkpoint")
    claims_released: Counter = _per_queue("Claimed jobs released without spending an attempt", "claim_released")
    dequeues_rate_limited: Counter = _per_queue(
        "Dequeues refused by a rate limit or pause", "dequeue_requests_rate_limited"
    )
    retries_dequeued: Counter = _per_queue("Jobs handed out that had been attempted before", "retries_dequeued")
    dequeues: Counter = _per_queue("Dequeues answered, with or without jobs", "dequeue_requests")
    empty_dequeues: Counter = _per_queue("Dequeues answered without jobs", "dequeue_empty")
    parked_dequeues: Gauge = _gauge("Dequeues that wait for jobs", "dequeue-waiters")
    job_body_bytes: Distribution = _metric(
        _BYTES, "*", "Body size of enqueued jobs", "job_body_size_{queue}", "queue", ostrich_total="job-body-size"
    )
    first_dequeue_delay_ms: Distribution = _delay_ms(
        "Time from the creation of a job to its first claim", "first_dequeue_delay"
    )
    dequeue_delay_ms: Distribution = _delay_ms("Time from when a job was due to its claim", "dequeue_delay")
    dequeue_wait_seconds: Distribution = _seconds(
        "Time that dequeues waited for jobs", "{queue}_dequeue_wait_msec", "queue"
    )

    # The monitor

    timeouts_done: Counter = _per_queue("Jobs that became FAILED by an expired claim", "timeout_done")
    timeouts_retried: Counter = _per_queue("Jobs pending again after an expired claim", "timeout_retry")
    succeeded_collected: Counter = _per_queue("Succeeded jobs deleted after their time", "succeeded_gc")
    failed_collected: Counter = _per_queue("Failed jobs deleted after their time", "failed_gc")

    # Samples of queues and workers

    backlog_jobs: LabeledGauge = _queue_gauge("Jobs that are due, counted up to COUNT_LIMIT for each priority")
    running_jobs: LabeledGauge = _queue_gauge("Jobs that are claimed")
    oldest_due_age_seconds: LabeledGauge = _queue_gauge("Time since the oldest due job became due")
    scheduled_jobs: LabeledGauge = _queue_gauge(
        "Pending, not retrying jobs that are not due yet, counted up to COUNT_LIMIT for each priority"
    )
    waiting_for_key_jobs: LabeledGauge = _queue_gauge(
        "Pending, not retrying jobs that wait for others of their key, counted up to COUNT_LIMIT for each priority"
    )
    retrying_jobs: LabeledGauge = _queue_gauge(
        "Pending jobs whose last attempt failed, counted up to COUNT_LIMIT for each priority"
    )
    due_retrying_jobs: LabeledGauge = _queue_gauge("Retrying jobs that are due; backlog_jobs has them, too")
    failed_jobs: LabeledGauge = _queue_gauge("Jobs that are FAILED, counted up to COUNT_LIMIT for each priority")
    paused: LabeledGauge = _queue_gauge("1 if the queue is paused, else 0")
    active_shards: LabeledGauge = _queue_gauge("Shards that new jobs go to, or 0 if they go to all")
    completions_per_second: LabeledGauge = _queue_gauge(
        "Attempts that ended on this server, per second over the last five minutes"
    )
    backlog_seconds: LabeledGauge = _queue_gauge("Time that the backlog would take at the current rate of completions")
    workers_needed: LabeledGauge = _queue_gauge(
        "Worker slots needed to start jobs within the latency target, for queues that have one"
    )
    worker_slots: LabeledGauge = _queue_gauge("Worker slots that serve a queue with a latency target")
    worker_processes: LabeledGauge = _queue_gauge("Job processes that serve the queue, as workers report")
    latency_target_seconds: LabeledGauge = _queue_gauge("Smallest latency_target of the job classes of the queue")
    worker_clock_ahead_seconds: LabeledGauge = _worker_gauge(
        "How far a worker's clock is ahead of the store's, if it is off by 1 s or more", "clock_ahead_seconds"
    )
    worker_memory_growth_bytes: LabeledGauge = _worker_gauge(
        "Growth of a worker's job process since its first job, if it has grown by 50 MiB or more", "memory_growth_bytes"
    )

    # The store and its shards

    store_seconds: Distribution = _seconds(
        "Time of a call to the store, including the sync to disk", "store_{operation}_msec", "operation"
    )
    warning_threshold: LabeledGauge = _metric(
        LabeledGauge,
        "*",
        "Value of a setting WARN_…; from this value on, the dashboard and pinlater doctor warn",
        "*_{setting}",
        "setting",
    )
    certificate_expiry: Gauge = _gauge(
        "When the TLS certificate of the service expires",
        "tls-certificate-expiry",
        name="tls_certificate_expiry_timestamp_seconds",
    )
    commit_requests: Distribution = _metric(_SIZES, "*", "Requests in one transaction of the store", "commit-requests")
    commit_seconds: Distribution = _seconds("Time of one transaction of the store", "commit_msec")
    commits_failed: Counter = _counter("Transactions that failed, or whose outcome is unknown", "commits-failed")
    claims_undone: Counter = _counter(
        "Jobs whose claim was undone because the dequeue could not be answered; no attempt is spent", "claims-undone"
    )
    store_waiting: Gauge = _gauge("Requests waiting for the store", "store-waiting")
    unhealthy_shards: Gauge = _gauge("Shards that do not answer", "ill-shards", name="ill_shards", is_shared=True)
    shard_call_seconds: Distribution = _seconds(
        "Time of a call to a shard, including waiting", "shard_{shard}_call_msec", "shard"
    )
    shard_failures: Counter = _counter("Calls that a shard did not answer", "shard_{shard}_failures", "shard")
    shard_unhealthy: LabeledGauge = _shard_gauge("1 if the shard does not answer, else 0", name="shard_ill", noun="ill")
    store_bytes: LabeledGauge = _shard_gauge("Space that a shard uses: on disk, or in memory for Redis")
    store_free_bytes: LabeledGauge = _shard_gauge(
        "Space left for a shard: on the disk of an SQLite store, below the maxmemory of Redis"
    )

    def __init__(self) -> None:
        self._families: list[Family] = []
        for declared in dataclasses.fields(self):
            family = declared.metadata["make"](declared.name)
            setattr(self, declared.name, family)
            self._families.append(family)
        self.sampled_queue_gauges = (
            *(self.backlog_jobs, self.running_jobs, self.oldest_due_age_seconds),
            *(self.scheduled_jobs, self.waiting_for_key_jobs, self.retrying_jobs, self.due_retrying_jobs),
            *(self.failed_jobs, self.paused, self.active_shards),
        )

    def snapshot(self) -> list[Snapshot]:
        """Return a copy of all values, which another thread may render."""
        return [family.snapshot() for family in self._families]

    def queues(self) -> set[str]:
        """Return the names of all queues that have a series."""
        return {key for family in self._queue_families() for key in family.labels() if isinstance(key, str)}

    def forget_queue(self, queue: str) -> None:
        """Drop all series of a deleted queue."""
        for family in self._queue_families():
            family.forget(queue)

    def _queue_families(self) -> list[Counter | Distribution | LabeledGauge]:
        return [one for one in self._families if not isinstance(one, Gauge) and one.info.labels == ("queue",)]
