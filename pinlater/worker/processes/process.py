"""A job process: fetches, runs and acks jobs over one connection, which only one thread uses.

``solo`` and ``team_process`` define how the jobs are run.
"""

from __future__ import annotations

import logging
import os
import random
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import monotonic_ns

from pinlater_supervisor import Child

from pinlater.client.server_clock import ServerClock
from pinlater.errors import CallError, ServerUnavailable, ServiceError
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.body_schemas import bounded_classes
from pinlater.jobs.loader import load_middleware
from pinlater.model.plural import plural
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.burst import Burst
from pinlater.worker.claim_table.snapshot import Identity
from pinlater.worker.class_page import CLASSES_BYTES
from pinlater.worker.log_once import LogOnce
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.outcome_recorder import OutcomeRecorder
from pinlater.worker.processes.periodic_scheduler import FirstPeriodicJobs, PeriodicScheduler
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.connector import Connector
from pinlater.worker.session.fetcher import Fetcher
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.run_reporter import RunReporter
from pinlater.worker.session.weighted_round_robin import WeightedRoundRobin
from pinlater.worker.shared import Shared

POLL_SECONDS = 10.0
"""How long the server may park a dequeue at most; with short leases, a third of the lease, see ``Pipeline``."""
_SHORTEST_POLL_SECONDS = 1.0
HOLD_NS = 200_000_000
"""Fetched jobs that were not started after this time are released, for others to run."""
_STOP_SECONDS = 5.0
"""How long a stopping process tries to reach a server; the keeper recovers what is left."""
_RETRY_SLACK_MS = 5
_SHORTEST_BURST_WAIT_SECONDS = 0.05
_LONGEST_BURST_WAIT_SECONDS = 1.0

log = logging.getLogger(__name__)


def _with_jitter(max_jobs: int | None) -> int | None:
    """Reduce a number of jobs by up to a tenth, so that processes are not all replaced at once."""
    return None if max_jobs is None else max(1, round(max_jobs * (1 - 0.1 * random.random())))  # noqa: S311 - no secret


def _new_identity(
    options: WorkerOptions, weights: Mapping[str, int], codec: JobCodec, shared: Shared, generation: int
) -> Identity:
    """Return how this process is known to the keeper and the servers."""
    return Identity(
        shared.origin.new_source(os.getpid()),
        list(weights),
        codec.runnable_names,
        options.capacity,
        pid=os.getpid(),
        started_ms=int(time.time() * 1000),
        targets=codec.latency_targets(weights),
        # A kill would harm the other jobs of a team, or end a debugger's session.
        patience=[] if options.is_team or options.debug else codec.cancel_patience,
        generation=generation,
    )


class JobProcess(ABC):
    """Dequeues jobs with piggybacked acks, runs them, and acks or releases all of them before it stops.

    Args:
        child: this process.
        options: settings of the worker.
        pool: the pool of the process.
        codec: codec of the job classes.
        shared: memory shared with the other processes.

    Raises:
        ConfigError: middleware cannot be loaded, a periodic job cannot be created without arguments, or there are too
            many processes, queues or job classes.
    """

    def __init__(self, child: Child, options: WorkerOptions, pool: JobPool, codec: JobCodec, shared: Shared) -> None:
        self._middleware = load_middleware(options.middleware)
        self._child = child
        self._codec = codec
        lease = options.lease_seconds
        self._longest_poll_seconds = min(POLL_SECONDS, max(lease / 3, _SHORTEST_POLL_SECONDS))
        self._jobs_done = 0
        self._most_jobs = _with_jitter(options.max_jobs)
        self._log_once = LogOnce(log, "%s")
        # Its part of the memory that the processes share
        weights = pool.weights or dict.fromkeys(codec.queues, 1)
        self._identity = identity = _new_identity(options, weights, codec, shared, child.generation)
        self._row = shared.row(pool.name, child.slot)
        self._row.register(identity)
        shared.class_page.write(bounded_classes(codec.kinds, CLASSES_BYTES))
        self._counters = shared.process_counters(pool.name, child.slot)
        self._counters.register(identity.kinds)
        self._burst = Burst(shared, self._row, options.queues or codec.queues) if options.burst else None
        # Its session with a server
        self._calls = calls = Calls(identity.source, is_plain=True)
        self._connector = Connector(options.servers, contact=self._row.contact)
        self._pipeline = pipeline = Pipeline(self._connector, child.wakeup_fd, lease)
        self._clock = clock = ServerClock()
        self._run_reporter = RunReporter(self._counters, lambda: clock.is_known)
        self._ack_buffer = AckBuffer(
            pipeline, calls, self._expect_retry, self._counters.count_event, take_runs=self._run_reporter.take
        )
        self._fetcher = Fetcher(
            pipeline,
            self._ack_buffer,
            self._row,
            identity,
            round_robin=WeightedRoundRobin(weights),
            clock=clock,
            count=self._counters.count_event,
        )
        self._fetcher.lacks_queue = True  # unknown, so check at first
        self._scheduler = PeriodicScheduler(pipeline, calls, FirstPeriodicJobs(codec.kinds, identity.queues), clock)
        self._recorder = OutcomeRecorder(
            self._counters, self._ack_buffer, self._run_reporter, self._scheduler, clock, any_fd=child.wakeup_fd
        )

    @property
    def is_spent(self) -> bool:
        """Whether it runs no more jobs because no more files can be opened in it."""
        return self._recorder.is_spent

    def reach_server(self, seconds: float) -> bool:
        """Connect, and create the queues, within ``seconds``; return whether that was possible."""
        deadline = time.monotonic() + seconds
        while delay := self._ensure_connected():
            if self._child.draining or time.monotonic() >= deadline:
                return False
            self._pause(delay)
        return True

    @abstractmethod
    def work(self) -> None:
        """Run jobs until told to stop, or until the burst is over."""

    @abstractmethod
    def _close(self) -> None:
        """Close what jobs have used."""

    @property
    def _is_done(self) -> bool:
        if self._has_run_enough:
            return True
        return self._burst is not None and self._fetcher.found_no_jobs and self._burst.is_over

    @property
    def _has_run_enough(self) -> bool:
        return self.is_spent or self._jobs_left == 0

    @property
    def _jobs_left(self) -> int | None:
        """Number of jobs that the process may still run; None: no limit."""
        return None if self._most_jobs is None else max(self._most_jobs - self._jobs_done, 0)

    # Fetching

    def _ensure_connected(self) -> float:
        """Connect, and recover from a lost connection; return 0, or the seconds until the next try."""
        try:
            self._pipeline.open()
            self._fetcher.release_lost()
            if self._fetcher.lacks_queue:
                self._fetcher.create_queues()
                self._scheduler.reset()
            self._scheduler.enqueue_when_due()
        except ServerUnavailable:
            return self._connector.delay_seconds
        except (CallError, ServiceError) as error:
            self._log_once.report(error)
            return 1.0
        self._log_once.reset()
        return 0.0

    def _poll_wait_seconds(self, burst: Burst) -> float:
        """Record that a dequeue of a burst is about to be sent; return how long it may wait for a job."""
        if not self._ack_buffer.is_empty:
            return 0.0
        burst.record_poll()
        if self._fetcher.is_rate_limited:
            return _LONGEST_BURST_WAIT_SECONDS
        if not self._fetcher.found_no_jobs:
            return 0.0
        return min(max(burst.retries_due_in_seconds, _SHORTEST_BURST_WAIT_SECONDS), _LONGEST_BURST_WAIT_SECONDS)

    def _expect_retry(self, delay_ms: int) -> None:
        self._row.record_retry_due(monotonic_ns() // 1_000_000 + delay_ms + _RETRY_SLACK_MS)

    def _pause(self, seconds: float) -> None:
        """Sleep until the time is over or a stop is requested."""
        poll = select.poll()
        poll.register(self._child.wakeup_fd, select.POLLIN)
        poll.poll(seconds * 1000)

    # Stopping

    def _shut_down(self) -> None:
        """Release unstarted jobs and ack the rest; the keeper recovers what fails."""
        if self._jobs_left == 0:
            log.info("--max-jobs: ran %s; a new process replaces this one", plural(self._jobs_done))
        self._fetcher.release_all()
        self._run_reporter.make_due()
        self._ack_buffer.flush()
        deadline = time.monotonic() + _STOP_SECONDS
        while not (self._is_all_acked or self._child.stopping_now or time.monotonic() >= deadline):
            try:
                self._pipeline.open()
                self._fetcher.release_lost()
            except (CallError, ServiceError):
                self._sleep()
                continue
            self._ack_buffer.flush()
            if self._fetcher.in_flight and self._pipeline.in_flight == 1:
                self._fetcher.end_wait()
            if self._pipeline.in_flight:
                self._pipeline.receive()
                self._fetcher.release_all()
            else:
                self._sleep()
        self._ack_buffer.late.close()
        self._close()
        self._pipeline.close()
        if self._burst is not None:
            self._burst.record_work_end()

    def _sleep(self) -> None:
        time.sleep(min(self._connector.delay_seconds, 0.2))

    @property
    def _is_all_acked(self) -> bool:
        return self._ack_buffer.is_empty and not self._pipeline.in_flight and not self._fetcher.has_lost
