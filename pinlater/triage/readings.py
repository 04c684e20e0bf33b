"""Readings: the state of a service at one moment, which the rules examine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pinlater.client.periodic import PeriodicJob
from pinlater.errors import PinLaterError
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.queues import QueueSettings
from pinlater.model.silence import is_silent, serving_processes
from pinlater.model.workers import WorkerProcess, WorkerReport
from pinlater.triage.findings import Kind


class Depth(NamedTuple):
    """Jobs of one queue; a server counts up to its ``COUNT_LIMIT``.

    Attributes:
        due: number of pending jobs that are due.
        running: number of claimed jobs.
    """

    due: int = 0
    running: int = 0


class Flow(NamedTuple):
    """What happened in a queue over a period.

    Attributes:
        seconds: length of the period.
        enqueued: number of new jobs.
        started: number of jobs handed out.
        succeeded: number of attempts that succeeded.
        failed: number of attempts that failed.
        given_up: number of jobs that failed for good.
    """

    seconds: float
    enqueued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    given_up: int = 0

    @property
    def ended(self) -> int:
        """Number of attempts that ended."""
        return self.succeeded + self.failed

    @property
    def failed_share(self) -> float:
        """Share of the attempts that failed; 0 if none ended."""
        return self.failed / self.ended if self.ended else 0.0

    @property
    def growth(self) -> float:
        """Jobs per second enqueued, minus those finished; may be negative."""
        return (self.enqueued - self.succeeded - self.given_up) / self.seconds if self.seconds else 0.0


class FloodSample(NamedTuple):
    """The most frequent key or class among some pending jobs of a queue.

    Attributes:
        name: the key or the class.
        jobs: number of jobs with it.
        sampled: number of jobs in the sample.
        waiting: number of jobs of the queue that are due or wait for their key.
        usual_share: of a class: its share of the queue's attempts in the hours before.
    """

    name: str
    jobs: int
    sampled: int
    waiting: int
    usual_share: float = 0.0

    @property
    def share(self) -> float:
        """Share of the sampled jobs that have the key, or are of the class."""
        return self.jobs / self.sampled if self.sampled else 0.0


class KeyHold(NamedTuple):
    """A running job that others of its key wait for.

    Attributes:
        descriptor: the job.
        key: its key.
        since_ms: since when it has been running, epoch milliseconds by the store's clock.
        waiting: number of jobs that wait for the key, as far as they were looked at.
        job: its class; empty if unknown.
        usual_seconds: 95 % of the attempts of its class took at most this long; None if too few are known.
    """

    descriptor: str
    key: str
    since_ms: int
    waiting: int
    job: str = ""
    usual_seconds: float | None = None

    def is_usual(self, at_ms: int) -> bool | None:
        """Whether it has run no longer than usual; None if that is unknown."""
        return None if self.usual_seconds is None else at_ms - self.since_ms <= self.usual_seconds * 1000


class ShardReading(NamedTuple):
    """A shard of the store.

    Attributes:
        name: its name in descriptors.
        error: why it does not answer; empty if it does.
        since_ms: since when, epoch milliseconds; None if unknown.
        used_bytes: space that it uses; None if unknown.
        free_bytes: space that is left for it; None if unknown.
    """

    name: str
    error: str = ""
    since_ms: int | None = None
    used_bytes: float | None = None
    free_bytes: float | None = None


class StoreCalls(NamedTuple):
    """Calls of one operation to the store, or calls to one shard.

    Attributes:
        name: ``enqueue``, ``dequeue``, ``ack`` or ``checkpoint``; or the name of the shard.
        calls: number of calls.
        p95_seconds: time that 95 % of them did not exceed.
        median_seconds: time that half of them did not exceed.
    """

    name: str
    calls: int
    p95_seconds: float
    median_seconds: float = 0.0


class ServerReading(NamedTuple):
    """What a server's metrics show.

    Attributes:
        shards: shards of its store.
        store_calls: calls to the store within the last seconds, or since the previous reading, the slowest first.
        shard_calls: likewise, by shard.
        failed_commits: number of transactions that failed in that time.
        refused_calls: number of calls refused in that time because too many waited for the store.
        waiting_for_key: queue -> number of jobs that wait for their key.
        thresholds: its settings for when to warn, by key.
        problem: why it does not take calls; empty if it does, or if that is unknown.
        certificate_ends: when its TLS certificate expires, epoch seconds; None without one, or if that is unknown.
    """

    shards: Sequence[ShardReading] = ()
    store_calls: Sequence[StoreCalls] = ()
    shard_calls: Sequence[StoreCalls] = ()
    failed_commits: int = 0
    refused_calls: int = 0
    waiting_for_key: Mapping[str, int] = {}
    thresholds: Mapping[str, float] = {}
    problem: str = ""
    certificate_ends: float | None = None


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What was read from a service at one moment; empty where the service does not know it.

    Attributes:
        at_ms: the moment, epoch milliseconds.
        settings: limits of each examined queue.
        oldest_due_ms: queue -> when its oldest due job became due, epoch milliseconds.
        workers: latest report of each worker; None if the server does not store reports.
        depths: number of jobs of the queues whose jobs have waited longest.
        recent: queue -> flow of the last minutes; None if the server has no statistics.
        before: queue -> flow of the hours before.
        last_minute: queue -> flow of the minute or two by the clock that contain the last 60 seconds.
        groups: groups of failed jobs, the largest first.
        periodic: periodic jobs.
        keys: queue -> its most frequent key, for deep queues.
        holds: queue -> the job that has run longest of those that others of their key wait for.
        classes: queue -> its most frequent class, for deep queues that several classes share.
        server: figures from a server's metrics; None if unavailable.
        missing_shards: shards that do not answer, if ``server`` is None.
        servers_away: servers that do not answer although others do, and why.
        answer_seconds: how long a small call took, the shorter of two if the first took long; None if unknown.
        not_told: what could not be read, in words.
        unchecked: kinds of findings that these readings may miss, because a read failed that may succeed the next time.
    """

    at_ms: int
    settings: Mapping[str, QueueSettings] = field(default_factory=dict)
    oldest_due_ms: Mapping[str, int] = field(default_factory=dict)
    workers: Sequence[WorkerReport] | None = ()
    depths: Mapping[str, Depth] = field(default_factory=dict)
    recent: Mapping[str, Flow] | None = None
    before: Mapping[str, Flow] = field(default_factory=dict)
    last_minute: Mapping[str, Flow] = field(default_factory=dict)
    groups: Sequence[FailureGroup] = ()
    periodic: Sequence[PeriodicJob] = ()
    keys: Mapping[str, FloodSample] = field(default_factory=dict)
    holds: Mapping[str, KeyHold] = field(default_factory=dict)
    classes: Mapping[str, FloodSample] = field(default_factory=dict)
    server: ServerReading | None = None
    missing_shards: Collection[str] = ()
    servers_away: Mapping[str, PinLaterError] = field(default_factory=dict)
    answer_seconds: float | None = None
    not_told: Sequence[str] = ()
    unchecked: Collection[Kind] = ()

    def age_seconds(self, moment_ms: int) -> float:
        """Return how long ago a moment was; 0 if it is in the future."""
        return max(self.at_ms - moment_ms, 0) / 1000

    def waits_seconds(self, queue: str) -> float:
        """Return for how long the oldest due job of a queue has been due; 0 if none is."""
        due_ms = self.oldest_due_ms.get(queue)
        return 0.0 if due_ms is None else self.age_seconds(due_ms)

    def is_silent(self, report: WorkerReport) -> bool:
        """Return whether a worker has missed its reports, or its connection ended without a word."""
        return is_silent(report, self.at_ms)

    def recently(self, queue: str) -> Flow | None:
        """Return the flow of a queue in the last minutes; None if nothing happened, or if that is unknown."""
        return None if self.recent is None else self.recent.get(queue)

    def groups_of(self, queue: str) -> Sequence[FailureGroup]:
        """Return the groups of failed jobs of a queue, the largest first."""
        return self._groups.get(queue, ())

    @cached_property
    def _groups(self) -> Mapping[str, Sequence[FailureGroup]]:
        found: defaultdict[str, list[FailureGroup]] = defaultdict(list)
        for group in self.groups:
            if group.queue in self.settings:
                found[group.queue].append(group)
        return found

    def is_worked_on(self, queue: str) -> bool:
        """Return whether anyone runs jobs of a queue, as far as is known."""
        depth = self.depths.get(queue)
        if depth is None or not depth.running:
            return False
        if self.recent is None:
            return True
        flow = self.last_minute.get(queue)  # a dead worker's jobs stay claimed until their leases expire
        return flow is not None and bool(flow.started or flow.ended)

    @cached_property
    def reports(self) -> Sequence[WorkerReport]:
        """Worker reports; empty if the server does not store them."""
        return self.workers or ()

    def serving(self, queue: str) -> Sequence[WorkerProcess]:
        """Return the job processes that serve a queue, of workers that are neither draining nor silent."""
        return self._serving.get(queue, ())

    @cached_property
    def _serving(self) -> Mapping[str, Sequence[WorkerProcess]]:
        found: defaultdict[str, list[WorkerProcess]] = defaultdict(list)
        for process in serving_processes(self.reports, self.at_ms):
            for queue in process.queues:
                found[queue].append(process)
        return found
