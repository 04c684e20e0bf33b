"""All metrics of the server, each declared once.

The names in ``/stats.txt`` are those of the original service where it had the metric.
"""

from __future__ import annotations

from typing import TypeVar

from pinlater.server.metrics.families import About, Counter, Distribution, Family, Gauge, Levels, Snapshot, bounds

F = TypeVar("F", Counter, Distribution, Gauge, Levels)

# Ostrich shows times in milliseconds, Prometheus in seconds, whichever of them is recorded.
_MS_TO_SECONDS = 0.001
_SECONDS_TO_MS = 1000.0

_CALL_BOUNDS = bounds(-5, 3)  # seconds: 10 µs to 17 minutes
_DELAY_BOUNDS = bounds(0, 8)  # milliseconds: 1 ms to 28 hours
_BYTE_BOUNDS = bounds(0, 7)
_SIZE_BOUNDS = bounds(0, 4)


class Metrics:
    """The metrics of one server process; feed them in the event loop's thread.

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
        self._add_store()

    def snapshot(self) -> list[Snapshot]:
        """Return all values as plain data that another thread may render."""
        return [family.snapshot() for family in self._families]

    def queues(self) -> set[str]:
        """Return the queues that have a series."""
        return {key for family in self._of_queues() for key in family.labels() if isinstance(key, str)}

    def forget_queue(self, queue: str) -> None:
        """Drop the series of a deleted queue."""
        for family in self._of_queues():
            family.forget(queue)

    def _of_queues(self) -> list[Counter | Distribution | Levels]:
        return [one for one in self._families if not isinstance(one, Gauge) and one.about.labels == ("queue",)]

    def _add_calls(self) -> None:
        about = About(
            name="pinlater_call_seconds",
            help="Time to answer a call",
            labels=("method",),
            ostrich="PinLaterService.{method}_msec",
            to_ostrich=_SECONDS_TO_MS,
        )
        self.call_seconds = self._kept(Distribution(about, _CALL_BOUNDS))
        about = About(
            name="pinlater_errors_total",
            help="Calls answered with an error",
            labels=("method", "code"),
            ostrich="PinLater.{method}.errors.{code}",
        )
        self.errors = self._kept(Counter(about))
        self.connections = self._gauge("pinlater_connections", "Open client connections", "connections")
        self.connections_opened = self._total("pinlater_connections_opened", "Connections taken", "connections-opened")
        self.connections_refused = self._total(
            "pinlater_connections_refused", "Connections closed at once for being too many", "connections-refused"
        )
        self.handshakes_failed = self._total(
            "pinlater_tls_handshakes_failed", "Connections closed for want of TLS or a certificate", "handshakes-failed"
        )
        about = About(
            name="pinlater_calls_shed_total",
            help="Calls refused because the store is behind",
            labels=("method",),
            ostrich="PinLater.{method}.shed",
        )
        self.calls_shed = self._kept(Counter(about))
        self.frames_refused = self._total(
            "pinlater_frames_refused", "Connections closed for what came over them", "frames-refused"
        )

    def _add_jobs(self) -> None:
        self.jobs_enqueued = self._by_queue("jobs_enqueued", "Jobs stored", "enqueue")
        self.jobs_imported = self._by_queue("jobs_imported", "Jobs taken over from another store", "import")
        self.jobs_dequeued = self._by_queue("jobs_dequeued", "Jobs handed out, dry runs too", "dequeue")
        self.acks_succeeded = self._by_queue("acks_succeeded", "Jobs acked as succeeded", "ack_succeeded")
        self.acks_failed = self._by_queue("acks_failed", "Jobs acked as failed", "ack_failed")
        self.jobs_given_up = self._by_queue(
            "jobs_given_up", "Jobs that have FAILED for good, be it by an ack or a lost claim", "given_up"
        )
        self.checkpoints = self._by_queue("checkpoints", "Checkpoints stored", "checkpoint")
        self.checkpoint_noops = self._by_queue("checkpoint_noops", "Checkpoints of jobs not held", "checkpoint_noop")
        self.stale_acks = self._by_queue("stale_acks", "Acks of a claim that ended", "stale_ack")
        self.stale_checkpoints = self._by_queue(
            "stale_checkpoints", "Checkpoints of a claim that ended", "stale_checkpoint"
        )
        self.claims_released = self._by_queue(
            "claims_released", "Claimed jobs given back, no attempt spent", "claim_released"
        )
        self.dequeues_rate_limited = self._by_queue(
            "dequeues_rate_limited", "Dequeues refused by a rate limit", "dequeue_requests_rate_limited"
        )
        self.retries_dequeued = self._by_queue(
            "retries_dequeued", "Jobs handed out that had been tried before", "retries_dequeued"
        )
        self.dequeues = self._by_queue("dequeues", "Dequeues answered, with jobs or without", "dequeue_requests")
        self.empty_dequeues = self._by_queue("empty_dequeues", "Dequeues answered with no job", "dequeue_empty")
        self.parked_dequeues = self._gauge("pinlater_parked_dequeues", "Dequeues waiting for a job", "dequeue-waiters")

    def _add_times(self) -> None:
        about = About(
            name="pinlater_job_body_bytes",
            help="Body size of stored jobs",
            labels=("queue",),
            ostrich="job_body_size_{queue}",
            ostrich_total="job-body-size",
        )
        self.job_body_bytes = self._kept(Distribution(about, _BYTE_BOUNDS))
        self.first_dequeue_delay_ms = self._delay_ms("first_dequeue_delay", "Creation of a job to its first claim")
        self.dequeue_delay_ms = self._delay_ms("dequeue_delay", "When a job was due to its claim")
        about = About(
            name="pinlater_dequeue_wait_seconds",
            help="How long dequeues waited for a job",
            labels=("queue",),
            ostrich="{queue}_dequeue_wait_msec",
            to_ostrich=_SECONDS_TO_MS,
        )
        self.dequeue_wait_seconds = self._kept(Distribution(about, _CALL_BOUNDS))

    def _add_monitor(self) -> None:
        self.timeouts_done = self._by_queue("timeouts_done", "Jobs failed for good by a lost claim", "timeout_done")
        self.timeouts_retried = self._by_queue("timeouts_retried", "Lost claims, job pending again", "timeout_retry")
        self.succeeded_collected = self._by_queue("succeeded_collected", "Succeeded jobs removed", "succeeded_gc")
        self.failed_collected = self._by_queue("failed_collected", "Failed jobs removed", "failed_gc")

    def _add_queues(self) -> None:
        self.backlog_jobs = self._level("backlog_jobs", "Jobs that are due, counted up to COUNT_LIMIT a priority")
        self.running_jobs = self._level("running_jobs", "Jobs that are claimed now")
        self.oldest_due_age_seconds = self._level("oldest_due_age_seconds", "How long the oldest due job has been due")
        self.scheduled_jobs = self._level("scheduled_jobs", "Jobs that wait and are not due yet, counted likewise")
        self.retrying_jobs = self._level(
            "retrying_jobs", "Jobs that wait and were tried before, of the first 10,000 that wait of each priority"
        )
        self.failed_jobs = self._level("failed_jobs", "Jobs that are FAILED, counted likewise")
        self.paused = self._level("paused", "1 for a queue that is paused, else 0")
        self.completions_per_second = self._level(
            "completions_per_second", "Attempts that ended on this server, over the last five minutes"
        )
        self.backlog_seconds = self._level("backlog_seconds", "How long the backlog would take at that pace")
        self.of_queues = (
            *(self.backlog_jobs, self.running_jobs, self.oldest_due_age_seconds),
            *(self.scheduled_jobs, self.retrying_jobs, self.failed_jobs, self.paused),
        )

    def _add_store(self) -> None:
        about = About(
            name="pinlater_store_seconds",
            help="Time of a call to the store, sync included",
            labels=("operation",),
            ostrich="store_{operation}_msec",
            to_ostrich=_SECONDS_TO_MS,
        )
        self.store_seconds = self._kept(Distribution(about, _CALL_BOUNDS))
        self.certificate_expiry = self._gauge(
            "pinlater_tls_certificate_expiry_timestamp_seconds",
            "When the certificate of the service ends",
            "tls-certificate-expiry",
        )
        about = About(name="pinlater_commit_requests", help="Requests in a transaction", ostrich="commit-requests")
        self.commit_requests = self._kept(Distribution(about, _SIZE_BOUNDS))
        about = About(
            name="pinlater_commit_seconds",
            help="Time of a transaction",
            ostrich="commit_msec",
            to_ostrich=_SECONDS_TO_MS,
        )
        self.commit_seconds = self._kept(Distribution(about, _CALL_BOUNDS))
        self.commits_failed = self._total(
            "pinlater_commits_failed",
            "Transactions that were not committed, or of which nobody knows whether they were",
            "commits-failed",
        )
        self.claims_undone = self._total(
            "pinlater_claims_undone",
            "Jobs that were claimed for an answer that could not be given, and made pending again, no attempt spent",
            "claims-undone",
        )
        self.store_waiting = self._gauge("pinlater_store_waiting", "Requests the store has not done", "store-waiting")
        about = About(
            name="pinlater_ill_shards", help="Shards that do not answer", ostrich="ill-shards", is_common=True
        )
        self.ill_shards = self._kept(Gauge(about))
        self._add_shards()

    def _add_shards(self) -> None:
        about = About(
            name="pinlater_shard_call_seconds",
            help="Time of a call to a shard, waiting in line included",
            labels=("shard",),
            ostrich="shard_{shard}_call_msec",
            to_ostrich=_SECONDS_TO_MS,
        )
        self.shard_call_seconds = self._kept(Distribution(about, _CALL_BOUNDS))
        about = About(
            name="pinlater_shard_failures_total",
            help="Calls that a shard did not answer",
            labels=("shard",),
            ostrich="shard_{shard}_failures",
        )
        self.shard_failures = self._kept(Counter(about))
        about = About(
            name="pinlater_shard_ill",
            help="1 for a shard that does not answer, else 0",
            labels=("shard",),
            ostrich="shard_{shard}_ill",
        )
        self.shard_ill = self._kept(Levels(about))
        self.store_bytes = self._of_shards("store_bytes", "What a shard takes on its disk; of Redis, in memory")
        self.store_free_bytes = self._of_shards(
            "store_free_bytes",
            "What is left for it: on the disk of an SQLite store, below the maxmemory of Redis",
        )

    def _of_shards(self, noun: str, help_text: str) -> Levels:
        about = About(name=f"pinlater_{noun}", help=help_text, labels=("shard",), ostrich="shard_{shard}_" + noun)
        return self._kept(Levels(about))

    def _by_queue(self, noun: str, help_text: str, suffix: str) -> Counter:
        name = f"pinlater_{noun}_total"
        return self._kept(Counter(About(name=name, help=help_text, labels=("queue",), ostrich="{queue}_" + suffix)))

    def _level(self, noun: str, help_text: str) -> Levels:
        about = About(name=f"pinlater_queue_{noun}", help=help_text, labels=("queue",), ostrich="{queue}_" + noun)
        return self._kept(Levels(about))

    def _delay_ms(self, noun: str, help_text: str) -> Distribution:
        about = About(
            name=f"pinlater_{noun}_seconds",
            help=help_text,
            labels=("queue",),
            ostrich="{queue}_" + noun + "_ms",
            to_base=_MS_TO_SECONDS,
        )
        return self._kept(Distribution(about, _DELAY_BOUNDS))

    def _total(self, name: str, help_text: str, ostrich: str) -> Counter:
        return self._kept(Counter(About(name=f"{name}_total", help=help_text, ostrich=ostrich)))

    def _gauge(self, name: str, help_text: str, ostrich: str) -> Gauge:
        return self._kept(Gauge(About(name=name, help=help_text, ostrich=ostrich)))

    def _kept(self, family: F) -> F:
        self._families.append(family)
        return family
