"""A job process that runs one job at a time, in its only thread."""

from __future__ import annotations

from time import monotonic_ns

from pinlater_supervisor import Child, hear_again

from pinlater.jobs.body_codec import JobCodec
from pinlater.worker.claim_table.snapshot import RETURNING, RUNNING
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.process import HOLD_NS, JobProcess
from pinlater.worker.running.limits import NoLimits, TimeLimits
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Outcome, ReleasedUnknown, Result
from pinlater.worker.session.solo_saver import SoloSaver
from pinlater.worker.shared import Shared
from pinlater.worker.terminal import relay_interrupts

_FLUSH_NS = 100_000_000
"""How long acks may wait for a dequeue to be piggybacked on."""


class SoloProcess(JobProcess):
    """Runs jobs in the main thread; meanwhile the keeper renews its claims and the master enforces its limits."""

    def __init__(self, child: Child, options: WorkerOptions, pool: JobPool, codec: JobCodec, shared: Shared) -> None:
        super().__init__(child, options, pool, codec, shared)
        self._is_at_terminal = options.debug
        self._saver = saver = SoloSaver(self._pipeline, self._calls, child, self._counters.count_event)
        self._runner = Runner(
            codec,
            saver,
            NoLimits() if options.debug else TimeLimits(child.kill_at, saver),
            now=self._clock.now,
            middleware=self._middleware,
            unknown_seconds=options.unknown_seconds,
        )

    def work(self) -> None:
        """Run jobs until told to stop, or until the burst is over."""
        while not (self._child.draining or self._is_done):
            self._child.beat()
            batch = self._fetcher.next_batch()
            if batch is not None:
                self._fetcher.prefetch(None if self._jobs_left is None else self._jobs_left - len(batch.unstarted))
                self._ack_buffer.flush()  # acks that no dequeue has carried: the next job may take long
                self._run(batch)
            elif delay := self._ensure_connected():
                self._pause(delay)
            else:
                self._fetch()
        self._shut_down()

    def _close(self) -> None:
        self._runner.close()

    def _fetch(self) -> None:
        """Keep a dequeue parked, and receive the next reply."""
        held = self._fetcher.retry_in_seconds
        if held or not (self._fetcher.in_flight or self._request_jobs()):
            # No dequeue will carry the acks; and it may lack the very space that the acked jobs still take.
            self._ack_buffer.flush()
        if not self._pipeline.in_flight:
            self._pause(held or self._ack_buffer.retry_in_seconds or 0.05)
        elif self._pipeline.wait(held or None):
            self._pipeline.receive()
            if self._burst is not None and self._fetcher.found_no_jobs and not self._fetcher.in_flight:
                self._burst.record_empty()

    def _request_jobs(self) -> bool:
        limit = self._fetcher.pace.limit if self._jobs_left is None else min(self._fetcher.pace.limit, self._jobs_left)
        return self._fetcher.dequeue(
            self._longest_poll_seconds if self._burst is None else self._poll_wait_seconds(self._burst), limit
        )

    def _run(self, batch: DequeuedBatch) -> None:
        """Run a batch until it is revoked, the process drains or time is up; release the rest."""
        states, area, run, child = batch.area.states, batch.area, self._runner.run, self._child
        saver, recorder = self._saver, self._recorder
        began = now = monotonic_ns()
        flush_at, first = now + _FLUSH_NS, batch.next
        if self._burst is not None:
            self._burst.record_work_begin()
        for position in batch.unstarted[: self._jobs_left]:
            if child.draining or recorder.is_spent or now - began > HOLD_NS:
                break
            states[position] = RUNNING
            if area.is_revoked:  # checked after the line above, so that the keeper and we cannot both take the job
                break
            batch.next = position + 1
            saver.is_open = True
            outcome = run(batch, position, now)
            saver.is_open = False
            if saver.is_saving:
                saver.close()
            if self._is_at_terminal:
                self._hear_signals()  # before the ack is sent: the debugger would still take an interrupt for its own
            since, now = now, monotonic_ns()
            if now - since >= _FLUSH_NS:
                self._ack_buffer.drop_acked()
            recorder.record(batch, position, outcome, now - since)
            if now >= flush_at or not (outcome is None or self._can_wait(outcome, batch, position)):
                # Failures go at once: the next job may kill the process, and the claim table has room for a few only.
                self._ack_buffer.flush()
                if not self._ack_buffer.has_pending:  # else nobody was there to send them to
                    area.mark_sent(position + 1)
                flush_at = now + _FLUSH_NS
        if batch.next > first:
            recorder.record_wait(batch, first)
        self._hear_signals()
        self._ack_buffer.release(batch, batch.unstarted)
        self._count_jobs(batch.next - first, (now - began) / 1e9)
        if self._burst is not None:
            self._burst.record_work_end()

    def _hear_signals(self) -> None:
        """Undo whatever jobs did to signals: the next ones and a stop must not suffer from it."""
        hear_again(self._child)
        if self._is_at_terminal:
            relay_interrupts()

    def _count_jobs(self, jobs: int, seconds: float) -> None:
        self._fetcher.pace.record(jobs, seconds)
        self._jobs_done += jobs
        self._child.status(f"jobs done: {self._jobs_done}")

    @staticmethod
    def _can_wait(outcome: Outcome, batch: DequeuedBatch, position: int) -> bool:
        """Tell whether an outcome need not be sent at once."""
        if isinstance(outcome, Result):  # a large one is known to this process alone
            return batch.area.states[position] != RETURNING
        return isinstance(outcome, ReleasedUnknown)
