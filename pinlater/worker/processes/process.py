"""A job process: fetches, runs and acks jobs over one connection, which only one thread uses.

``solo`` and ``team_process`` define how the jobs are run.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import select
import time
from abc import ABC, abstractmethod
from time import monotonic_ns

from pinlater_supervisor import Child

from pinlater.errors import CallError, ServerUnavailable, ServiceError
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.body_schemas import bounded_classes
from pinlater.jobs.loader import load_middleware
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.burst import Burst
from pinlater.worker.claim_table.counters import CANCELLED, UNREADABLE
from pinlater.worker.claim_table.snapshot import SUCCEEDED, Identity
from pinlater.worker.class_page import CLASSES_BYTES
from pinlater.worker.log_once import LogOnce
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.periodic_scheduler import FirstPeriodicJobs, PeriodicScheduler
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.connector import Connector
from pinlater.worker.session.fetcher import Fetcher
from pinlater.worker.session.outcome import Failure, LostClaim, Outcome, ReleasedUnknown, Result
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.run_reporter import RunReporter
from pinlater.worker.session.server_clock import ServerClock
from pinlater.worker.session.weighted_round_robin import WeightedRoundRobin
from pinlater.worker.shared import Shared

POLL_SECONDS = 10.0
"""How long the server may park a dequeue at most; with short leases, a third of the lease, see ``Pipeline``."""
_SHORTEST_POLL_SECONDS = 1.0
HOLD_NS = 200_000_000
"""Fetched jobs that were not started after this time are released, for others to run."""
_LONG_RUN_NS = 50_000_000
"""Acks of successes tell the server the run time if it was at least this long."""
_STOP_SECONDS = 5.0
"""How long a stopping process tries to reach a server; the keeper recovers what is left."""
_RETRY_SLACK_MS = 5
_MOST_UNKNOWN_NAMES = 16
_SHORTEST_BURST_WAIT_SECONDS = 0.05
_LONGEST_BURST_WAIT_SECONDS = 1.0

log = logging.getLogger(__name__)


def _with_jitter(max_jobs: int | None) -> int | None:
    """Reduce a number of jobs by up to a tenth, so that processes are not all replaced at once."""
    return None if max_jobs is None else max(1, round(max_jobs * (1 - 0.1 * random.random())))  # noqa: S311 - no secret


class JobProcess(ABC):
    """Dequeues jobs with piggybacked acks, runs them, and acks or releases all of them before it stops.

    Args:
        child: this process.
        options: settings of the worker.
        pool: the pool of the process.
        codec: codec of the job classes.
        shared: memory shared with the other processes.

    Attributes:
        is_spent: whether it runs no more jobs because no more files can be opened in it.

    Raises:
        ConfigError: middleware cannot be loaded, a periodic job cannot be created without arguments, or there are too
            many processes, queues or job classes.
    """

    def __init__(self, child: Child, options: WorkerOptions, pool: JobPool, codec: JobCodec, shared: Shared) -> None:
        self._middleware = load_middleware(options.middleware)
        self._child = child
        self._claim_table = shared.claim_table
        self._row = shared.row(pool.name, child.slot)
        self._burst = Burst(shared, self._row, options.queues or codec.queues) if options.burst else None
        weights = pool.weights or dict.fromkeys(codec.queues, 1)
        identity = self._identity = Identity(
            shared.origin.new_source(os.getpid()),
            list(weights),
            codec.names,
            options.capacity,
            pid=os.getpid(),
            started_ms=int(time.time() * 1000),
            targets=codec.latency_targets(weights),
            # A kill would harm the other jobs of a team, or end a debugger's session.
            patience=[] if options.is_team or options.debug else codec.cancel_patience,
        )
        self._row.register(identity)
        shared.class_page.write(bounded_classes(codec.kinds, CLASSES_BYTES))
        self._counters = shared.process_counters(pool.name, child.slot)
        self._counters.register(identity.kinds)
        calls = self._calls = Calls(identity.source, is_plain=True)
        lease = self._lease_seconds = options.lease_seconds
        self._connector = Connector(options.servers, contact=self._row.contact)
        self._clock = ServerClock()
        self._pipeline = Pipeline(self._connector, child.wakeup_fd, lease)
        self._longest_poll_seconds = min(POLL_SECONDS, max(lease / 3, _SHORTEST_POLL_SECONDS))
        self._run_reporter = RunReporter(self._counters, lambda: self._clock.is_known)
        self._ack_buffer = AckBuffer(
            self._pipeline,
            calls,
            lease,
            self._expect_retry,
            self._counters.count_event,
            take_runs=self._run_reporter.take,
        )
        self._fetcher = Fetcher(
            self._pipeline,
            self._ack_buffer,
            self._row,
            identity,
            lease,
            round_robin=WeightedRoundRobin(weights),
            clock=self._clock,
            count=self._counters.count_event,
        )
        self._scheduler = PeriodicScheduler(
            self._pipeline, calls, FirstPeriodicJobs(codec.kinds, identity.queues), self._clock
        )
        self._codec = codec
        self._log_once = LogOnce(log, "%s")
        self._jobs_done = 0
        self._unknown_names: set[str] = set()
        self._most_jobs = _with_jitter(options.max_jobs)
        self.is_spent = False
        self._fetcher.lacks_queue = True  # unknown, so check at first

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
        if not self._fetcher.found_no_jobs:
            return 0.0
        retries_due_seconds = self._claim_table.retries_due_ms / 1000 - time.monotonic()
        return min(max(retries_due_seconds, _SHORTEST_BURST_WAIT_SECONDS), _LONGEST_BURST_WAIT_SECONDS)

    def _expect_retry(self, delay_ms: int) -> None:
        self._row.record_retry_due(monotonic_ns() // 1_000_000 + delay_ms + _RETRY_SLACK_MS)

    def _pause(self, seconds: float) -> None:
        """Sleep until the time is over or a stop is requested."""
        poll = select.poll()
        poll.register(self._child.wakeup_fd, select.POLLIN)
        poll.poll(seconds * 1000)

    # Running

    def _record_outcome(self, batch: DequeuedBatch, position: int, outcome: Outcome | None, nanoseconds: int) -> None:
        queue = batch.queues[position]
        if nanoseconds >= _LONG_RUN_NS:
            batch.keep_run_time(position, nanoseconds // 1_000_000)
        if outcome is None:
            self._counters.count_success(queue, batch.area.kinds[position], nanoseconds)
            batch.area.states[position] = SUCCEEDED
            self._ack_buffer.succeeded(queue, (batch, position))
            return
        if isinstance(outcome, Result):
            self._counters.count_success(queue, batch.area.kinds[position], nanoseconds)
            batch.keep_result(position, outcome.result)
            self._ack_buffer.succeeded(queue, (batch, position))
            return
        self._check_descriptors()
        if isinstance(outcome, ReleasedUnknown):
            self._counters.count_ending_of(queue, self._unknown_name(outcome.name), outcome.ending, nanoseconds)
            self._ack_buffer.release(batch, [position], outcome)
            return  # the release can wait for others: if this process died now, the job would only be due at once
        if outcome.ending == UNREADABLE:
            self._counters.count_ending_of(queue, f"({UNREADABLE})", UNREADABLE, nanoseconds)
        else:
            self._counters.count_ending(queue, batch.area.kinds[position], outcome.ending, nanoseconds)
        if isinstance(outcome, LostClaim):
            batch.finish([position])
        elif isinstance(outcome, Failure):
            is_last = outcome.delay_ms is None or not batch.has_further_attempts(position)
            if is_last and outcome.ending not in {UNREADABLE, CANCELLED}:
                self._run_reporter.add_given_up(queue, batch.area.kinds[position])
            batch.keep_failure(position, outcome)
            self._ack_buffer.failed(queue, (batch, position), outcome)
        else:
            if outcome.attempts is not None:
                self._scheduler.record_run(queue, batch.descriptors[position], batch.bodies[position])
            self._ack_buffer.release(batch, [position], outcome)
            self._ack_buffer.flush()  # if this process died now, the job would be due at once, not when it asked for

    def _check_descriptors(self) -> None:
        """Have this process replaced if no more files can be opened in it: the next jobs would fail, too."""
        try:
            os.close(os.dup(self._child.wakeup_fd))
        except OSError as error:
            if error.errno == errno.EMFILE and not self.is_spent:
                self.is_spent = True
                log.error("jobs have left so many files open that no more can be; a new process replaces this one")  # noqa: TRY400 - the trace says nothing

    def _record_wait(self, batch: DequeuedBatch, position: int) -> None:
        """Record how long a job had been due when it started; of a batch of several jobs, one is recorded."""
        due_ms, started_ns = batch.metadata[position].runAfterTimestampMillis, batch.area.started_ns[position]
        if due_ms is None or started_ns < batch.fetched_ns:  # its class is unknown, so it did not start
            return
        since_seconds = (monotonic_ns() - started_ns) / 1e9
        wait_ms = (self._clock.now() - since_seconds) * 1000 - due_ms
        self._run_reporter.add_wait(batch.queues[position], batch.area.kinds[position], max(wait_ms, 0))

    def _unknown_name(self, name: str) -> str:
        """Return the name under which an unknown class is counted; the number of names is limited."""
        if len(self._unknown_names) < _MOST_UNKNOWN_NAMES:
            self._unknown_names.add(name)
        return name if name in self._unknown_names else f"({UNREADABLE})"

    # Stopping

    def _shut_down(self) -> None:
        """Release unstarted jobs and ack the rest; the keeper recovers what fails."""
        if self._jobs_left == 0:
            log.info("--max-jobs: ran %d jobs; a new process replaces this one", self._jobs_done)
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
