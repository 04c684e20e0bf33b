"""Records how the jobs of a process ended: counts them, and hands their acks to the buffer."""

from __future__ import annotations

import errno
import logging
import os
from time import monotonic_ns

from pinlater.client.server_clock import ServerClock
from pinlater.model.class_name import NO_CLASS
from pinlater.worker.claim_table.counters import CANCELLED, UNREADABLE, ProcessCounters
from pinlater.worker.claim_table.snapshot import SUCCEEDED
from pinlater.worker.processes.periodic_scheduler import PeriodicScheduler
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Failure, Interruption, LostClaim, Outcome, ReleasedUnknown, Result
from pinlater.worker.session.run_reporter import RunReporter

_LONG_RUN_NS = 50_000_000
"""Acks of successes tell the server the run time if it was at least this long."""
_MOST_UNKNOWN_NAMES = 16

log = logging.getLogger(__name__)


class OutcomeRecorder:
    """Records the outcomes of jobs.

    Args:
        counters: counters of the process.
        ack_buffer: sends the acks.
        run_reporter: reports waits, and jobs that were given up.
        scheduler: is told of the runs of periodic jobs.
        clock: the server's clock.
        any_fd: an open file descriptor.

    Attributes:
        is_spent: whether no more files can be opened in the process, so that the next jobs would fail, too.
    """

    def __init__(
        self,
        counters: ProcessCounters,
        ack_buffer: AckBuffer,
        run_reporter: RunReporter,
        scheduler: PeriodicScheduler,
        clock: ServerClock,
        *,
        any_fd: int,
    ) -> None:
        self.is_spent = False
        self._counters = counters
        self._ack_buffer = ack_buffer
        self._run_reporter = run_reporter
        self._scheduler = scheduler
        self._clock = clock
        self._any_fd = any_fd
        self._unknown_names: set[str] = set()

    def record(self, batch: DequeuedBatch, position: int, outcome: Outcome | None, nanoseconds: int) -> None:
        """Record the outcome of a job that ran for so long."""
        if nanoseconds >= _LONG_RUN_NS:
            batch.keep_run_time(position, nanoseconds // 1_000_000)
        if outcome is not None and not isinstance(outcome, Result):
            self._record_unfinished(batch, position, outcome, nanoseconds)
            return
        queue = batch.queues[position]
        self._counters.count_success(queue, batch.area.kinds[position], nanoseconds)
        if outcome is None:
            batch.area.states[position] = SUCCEEDED
        else:
            batch.keep_result(position, outcome.result)
        self._ack_buffer.succeeded(queue, (batch, position))

    def _record_unfinished(
        self, batch: DequeuedBatch, position: int, outcome: Failure | Interruption | LostClaim, nanoseconds: int
    ) -> None:
        """Record the outcome of a job that has not succeeded."""
        queue, kind = batch.queues[position], batch.area.kinds[position]
        self.check_descriptors()
        if isinstance(outcome, ReleasedUnknown):
            self._counters.count_ending_of(queue, self._unknown_name(outcome.name), outcome.ending, nanoseconds)
            self._ack_buffer.release(batch, [position], outcome)
            return  # the release can wait for others: if this process died now, the job would only be due at once
        if outcome.ending == UNREADABLE:
            self._counters.count_ending_of(queue, NO_CLASS, UNREADABLE, nanoseconds)
        else:
            self._counters.count_ending(queue, kind, outcome.ending, nanoseconds)
        if isinstance(outcome, LostClaim):
            batch.finish([position])
        elif isinstance(outcome, Failure):
            is_last = outcome.delay_ms is None or not batch.has_further_attempts(position)
            if is_last and outcome.ending not in {UNREADABLE, CANCELLED}:
                self._run_reporter.add_given_up(queue, kind)
            batch.keep_failure(position, outcome)
            self._ack_buffer.failed(queue, (batch, position), outcome)
        else:
            if outcome.attempts is not None:
                self._scheduler.record_run(queue, batch.descriptors[position], batch.bodies[position])
            self._ack_buffer.release(batch, [position], outcome)
            self._ack_buffer.flush()  # if this process died now, the job would be due at once, not when it asked for

    def check_descriptors(self) -> None:
        """Have this process replaced if no more files can be opened in it."""
        try:
            os.close(os.dup(self._any_fd))
        except OSError as error:
            if error.errno == errno.EMFILE and not self.is_spent:
                self.is_spent = True
                log.error("jobs have left so many files open that no more can be; a new process replaces this one")  # noqa: TRY400 - the trace says nothing

    def record_wait(self, batch: DequeuedBatch, position: int) -> None:
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
        return name if name in self._unknown_names else NO_CLASS
