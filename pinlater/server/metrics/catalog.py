"""Declare each metric of the server once.

Names in ``/stats.txt`` are those of the original service where it had the metric.
"""

from __future__ import annotations

from typing import TypeVar

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

F = TypeVar("F", Counter, Distribution, Gauge, LabeledGauge)

# Ostrich shows times in milliseconds, Prometheus in seconds, whichever unit is recorded.
_MS_TO_SECONDS = 0.001
_SECONDS_TO_MS = 1000.0

_CALL_BOUNDS = bounds(-5, 3)  # seconds: 10 µs to 17 minutes
_DELAY_BOUNDS = bounds(0, 8)  # milliseconds: 1 ms to 28 hours
_BYTE_BOUNDS = bounds(0, 7)
_SIZE_BOUNDS = bounds(0, 4)


class Metrics:
    """The metrics of one server process; update them in the event loop's thread.

    ::

        metrics.jobs_enqueued.add(queue, len(jobs))
        metrics.errors.add((method, "QUEUE_NOT_FOUND"))
        metrics.call_seconds.observe(method, seconds)
        metrics.connections.source = lambda: len(open_connections)
    """

    def __init__(self) -> None:
        self._families: list[Family] = []
        self._add_calls()
        self._add_jobs()
        self._add_times()
        self._add_monitor()
        self._add_queues()
        self._add_workers()
        self._add_store()

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

    def _add_calls(self) -> None:
        self.call_seconds = self._seconds(
            "pinlater_call_seconds",
            "Time to answer a call, without the wait that the call itself asked for",
            "PinLaterService.{method}_msec",
            "method",
        )
        self.errors = self._counter(
            "pinlater_errors", "Calls answered with an error", "PinLater.{method}.errors.{code}", "method", "code"
        )
        self.connections = self._gauge("pinlater_connections", "Open client connections", "connections")
        self.connections_opened = self._counter(
            "pinlater_connections_opened", "Connections accepted", "connections-opened"
        )
        self.connections_refused = self._counter(
            "pinlater_connections_refused", "Connections refused because too many were open", "connections-refused"
        )
        self.handshakes_failed = self._counter(
            "pinlater_tls_handshakes_failed", "Connections closed because the TLS handshake failed", "handshakes-failed"
        )
        self.calls_shed = self._counter(
            "pinlater_calls_shed", "Calls refused because the store is overloaded", "PinLater.{method}.shed", "method"
        )
        self.frames_refused = self._counter(
            "pinlater_frames_refused", "Connections closed because of invalid data", "frames-refused"
        )

    def _add_jobs(self) -> None:
        self.jobs_enqueued = self._per_queue("jobs_enqueued", "Jobs stored", "enqueue")
        self.jobs_imported = self._per_queue("jobs_imported", "Jobs imported from another store", "import")
        self.jobs_dequeued = self._per_queue("jobs_dequeued", "Jobs handed out, including dry runs", "dequeue")
        self.acks_succeeded = self._per_queue("acks_succeeded", "Jobs acked as succeeded", "ack_succeeded")
        self.acks_failed = self._per_queue("acks_failed", "Jobs acked as failed", "ack_failed")
        self.jobs_given_up = self._per_queue(
            "jobs_given_up", "Jobs that became FAILED, by an ack or an expired claim", "given_up"
        )
        self.jobs_cancelled = self._per_queue(
            "jobs_cancelled", "Jobs cancelled: waiting ones at once, running ones when they have stopped", "cancelled"
        )
        self.checkpoints = self._per_queue("checkpoints", "Checkpoints stored", "checkpoint")
        self.checkpoint_noops = self._per_queue(
            "checkpoint_noops", "Checkpoints ignored because the job was not held", "checkpoint_noop"
        )
        self.stale_acks = self._per_queue("stale_acks", "Acks ignored because their claim had ended", "stale_ack")
        self.stale_checkpoints = self._per_queue(
            "stale_checkpoints", "Checkpoints ignored because their claim had ended", "stale_checkpoint"
        )
        self.claims_released = self._per_queue(
            "claims_released", "Claimed jobs released without spending an attempt", "claim_released"
        )
        self.dequeues_rate_limited = self._per_queue(
            "dequeues_rate_limited", "Dequeues refused by a rate limit or pause", "dequeue_requests_rate_limited"
        )
        self.retries_dequeued = self._per_queue(
            "retries_dequeued", "Jobs handed out that had been attempted before", "retries_dequeued"
        )
        self.dequeues = self._per_queue("dequeues", "Dequeues answered, with or without jobs", "dequeue_requests")
        self.empty_dequeues = self._per_queue("empty_dequeues", "Dequeues answered without jobs", "dequeue_empty")
        self.parked_dequeues = self._gauge("pinlater_parked_dequeues", "Dequeues that wait for jobs", "dequeue-waiters")

    def _add_times(self) -> None:
        info = MetricInfo(
            name="pinlater_job_body_bytes",
            help="Body size of enqueued jobs",
            labels=("queue",),
            ostrich="job_body_size_{queue}",
            ostrich_total="job-body-size",
        )
        self.job_body_bytes = self._add(Distribution(info, _BYTE_BOUNDS))
        self.first_dequeue_delay_ms = self._delay_ms(
            "first_dequeue_delay", "Time from the creation of a job to its first claim"
        )
        self.dequeue_delay_ms = self._delay_ms("dequeue_delay", "Time from when a job was due to its claim")
        self.dequeue_wait_seconds = self._seconds(
            "pinlater_dequeue_wait_seconds", "Time that dequeues waited for jobs", "{queue}_dequeue_wait_msec", "queue"
        )

    def _add_monitor(self) -> None:
        self.timeouts_done = self._per_queue(
            "timeouts_done", "Jobs that became FAILED by an expired claim", "timeout_done"
        )
        self.timeouts_retried = self._per_queue(
            "timeouts_retried", "Jobs pending again after an expired claim", "timeout_retry"
        )
        self.succeeded_collected = self._per_queue(
            "succeeded_collected", "Succeeded jobs deleted after their time", "succeeded_gc"
        )
        self.failed_collected = self._per_queue("failed_collected", "Failed jobs deleted after their time", "failed_gc")

    def _add_queues(self) -> None:
        self.backlog_jobs = self._queue_gauge(
            "backlog_jobs", "Jobs that are due, counted up to COUNT_LIMIT for each priority"
        )
        self.running_jobs = self._queue_gauge("running_jobs", "Jobs that are claimed")
        self.oldest_due_age_seconds = self._queue_gauge(
            "oldest_due_age_seconds", "Time since the oldest due job became due"
        )
        self.scheduled_jobs = self._queue_gauge(
            "scheduled_jobs",
            "Pending, not retrying jobs that are not due yet, counted up to COUNT_LIMIT for each priority",
        )
        self.waiting_for_key_jobs = self._queue_gauge(
            "waiting_for_key_jobs",
            "Pending, not retrying jobs that wait for others of their key, counted up to COUNT_LIMIT for each priority",
        )
        self.retrying_jobs = self._queue_gauge(
            "retrying_jobs", "Pending jobs whose last attempt failed, counted up to COUNT_LIMIT for each priority"
        )
        self.due_retrying_jobs = self._queue_gauge(
            "due_retrying_jobs", "Retrying jobs that are due; backlog_jobs has them, too"
        )
        self.failed_jobs = self._queue_gauge(
            "failed_jobs", "Jobs that are FAILED, counted up to COUNT_LIMIT for each priority"
        )
        self.paused = self._queue_gauge("paused", "1 if the queue is paused, else 0")
        self.active_shards = self._queue_gauge("active_shards", "Shards that new jobs go to, or 0 if they go to all")
        self.completions_per_second = self._queue_gauge(
            "completions_per_second", "Attempts that ended on this server, per second over the last five minutes"
        )
        self.backlog_seconds = self._queue_gauge(
            "backlog_seconds", "Time that the backlog would take at the current rate of completions"
        )
        self.workers_needed = self._queue_gauge(
            "workers_needed", "Worker slots needed to start jobs within the latency target, for queues that have one"
        )
        self.worker_slots = self._queue_gauge("worker_slots", "Worker slots that serve a queue with a latency target")
        self.worker_processes = self._queue_gauge(
            "worker_processes", "Job processes that serve the queue, as workers report"
        )
        self.latency_target_seconds = self._queue_gauge(
            "latency_target_seconds", "Smallest latency_target of the job classes of the queue"
        )
        self.sampled_queue_gauges = (
            *(self.backlog_jobs, self.running_jobs, self.oldest_due_age_seconds),
            *(self.scheduled_jobs, self.waiting_for_key_jobs, self.retrying_jobs, self.due_retrying_jobs),
            *(self.failed_jobs, self.paused, self.active_shards),
        )

    def _add_workers(self) -> None:
        self.worker_clock_ahead_seconds = self._worker_gauge(
            "clock_ahead_seconds", "How far a worker's clock is ahead of the store's, if it is off by 1 s or more"
        )
        self.worker_memory_growth_bytes = self._worker_gauge(
            "memory_growth_bytes",
            "Growth of a worker's job process since its first job, if it has grown by 50 MiB or more",
        )

    def _add_store(self) -> None:
        self.store_seconds = self._seconds(
            "pinlater_store_seconds",
            "Time of a call to the store, including the sync to disk",
            "store_{operation}_msec",
            "operation",
        )
        info = MetricInfo(
            name="pinlater_warning_threshold",
            help="Value of a setting WARN_…; from this value on, the dashboard and pinlater doctor warn",
            labels=("setting",),
            ostrich="warning_threshold_{setting}",
        )
        self.warning_threshold = self._add(LabeledGauge(info))
        self.certificate_expiry = self._gauge(
            "pinlater_tls_certificate_expiry_timestamp_seconds",
            "When the TLS certificate of the service expires",
            "tls-certificate-expiry",
        )
        info = MetricInfo(
            name="pinlater_commit_requests", help="Requests in one transaction of the store", ostrich="commit-requests"
        )
        self.commit_requests = self._add(Distribution(info, _SIZE_BOUNDS))
        self.commit_seconds = self._seconds(
            "pinlater_commit_seconds", "Time of one transaction of the store", "commit_msec"
        )
        self.commits_failed = self._counter(
            "pinlater_commits_failed", "Transactions that failed, or whose outcome is unknown", "commits-failed"
        )
        self.claims_undone = self._counter(
            "pinlater_claims_undone",
            "Jobs whose claim was undone because the dequeue could not be answered; no attempt is spent",
            "claims-undone",
        )
        self.store_waiting = self._gauge("pinlater_store_waiting", "Requests waiting for the store", "store-waiting")
        info = MetricInfo(
            name="pinlater_ill_shards", help="Shards that do not answer", ostrich="ill-shards", is_shared=True
        )
        self.unhealthy_shards = self._add(Gauge(info))
        self._add_shards()

    def _add_shards(self) -> None:
        self.shard_call_seconds = self._seconds(
            "pinlater_shard_call_seconds",
            "Time of a call to a shard, including waiting",
            "shard_{shard}_call_msec",
            "shard",
        )
        self.shard_failures = self._counter(
            "pinlater_shard_failures", "Calls that a shard did not answer", "shard_{shard}_failures", "shard"
        )
        info = MetricInfo(
            name="pinlater_shard_ill",
            help="1 if the shard does not answer, else 0",
            labels=("shard",),
            ostrich="shard_{shard}_ill",
        )
        self.shard_unhealthy = self._add(LabeledGauge(info))
        self.store_bytes = self._shard_gauge("store_bytes", "Space that a shard uses: on disk, or in memory for Redis")
        self.store_free_bytes = self._shard_gauge(
            "store_free_bytes", "Space left for a shard: on the disk of an SQLite store, below the maxmemory of Redis"
        )

    def _shard_gauge(self, noun: str, help_text: str) -> LabeledGauge:
        info = MetricInfo(name=f"pinlater_{noun}", help=help_text, labels=("shard",), ostrich="shard_{shard}_" + noun)
        return self._add(LabeledGauge(info))

    def _per_queue(self, noun: str, help_text: str, suffix: str) -> Counter:
        return self._counter(f"pinlater_{noun}", help_text, "{queue}_" + suffix, "queue")

    def _queue_gauge(self, noun: str, help_text: str) -> LabeledGauge:
        info = MetricInfo(name=f"pinlater_queue_{noun}", help=help_text, labels=("queue",), ostrich="{queue}_" + noun)
        return self._add(LabeledGauge(info))

    def _worker_gauge(self, noun: str, help_text: str) -> LabeledGauge:
        name = f"pinlater_reported_{noun}"
        info = MetricInfo(name=name, help=help_text, labels=("worker",), ostrich="worker_{worker}_" + noun)
        return self._add(LabeledGauge(info))

    def _delay_ms(self, noun: str, help_text: str) -> Distribution:
        info = MetricInfo(
            name=f"pinlater_{noun}_seconds",
            help=help_text,
            labels=("queue",),
            ostrich="{queue}_" + noun + "_ms",
            to_base=_MS_TO_SECONDS,
        )
        return self._add(Distribution(info, _DELAY_BOUNDS))

    def _counter(self, name: str, help_text: str, ostrich: str, *labels: str) -> Counter:
        return self._add(Counter(MetricInfo(name=f"{name}_total", help=help_text, labels=labels, ostrich=ostrich)))

    def _seconds(self, name: str, help_text: str, ostrich: str, *labels: str) -> Distribution:
        info = MetricInfo(name=name, help=help_text, labels=labels, ostrich=ostrich, to_ostrich=_SECONDS_TO_MS)
        return self._add(Distribution(info, _CALL_BOUNDS))

    def _gauge(self, name: str, help_text: str, ostrich: str) -> Gauge:
        return self._add(Gauge(MetricInfo(name=name, help=help_text, ostrich=ostrich)))

    def _add(self, family: F) -> F:
        self._families.append(family)
        return family
