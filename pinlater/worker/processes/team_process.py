"""A job process that runs several jobs at once, outside its main thread."""

from __future__ import annotations

import math
import os
import select
from time import monotonic, monotonic_ns

from pinlater_supervisor import Child

from pinlater.jobs.body_codec import JobCodec
from pinlater.worker import logs
from pinlater.worker.claim_table.snapshot import MAX_JOBS, STARTING
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.process import HOLD_NS, JobProcess
from pinlater.worker.processes.task_team import TaskTeam
from pinlater.worker.processes.team import Team
from pinlater.worker.processes.thread_team import ThreadTeam
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.running.thread_limits import ThreadLimits
from pinlater.worker.session.shared_saver import SharedSaver
from pinlater.worker.shared import Shared

_BUSY_BURST_SECONDS = 1.0
_LOST_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 86400.0
"""A poll for more than 24 days is refused; the limit of a job may be longer."""


class TeamProcess(JobProcess):
    """Only the main thread talks to the server. It waits in one poll for replies, signals and ended jobs.

    Jobs are fetched only if they can be started at once. Short ones are also prefetched, and released if they are not
    started soon.
    """

    def __init__(self, child: Child, options: WorkerOptions, pool: JobPool, codec: JobCodec, shared: Shared) -> None:
        super().__init__(child, options, pool, codec, shared)
        self._waker = PipeEvent()
        is_on_loop = options.concurrency is not None
        self._saver = SharedSaver(
            self._pipeline,
            self._calls,
            child,
            self._waker,
            is_on_loop=is_on_loop,
            count=self._counters.count_event,
        )
        self._team = self._new_team(options)
        self._jobs_started = 0
        self._is_parked = False
        self._try_at = 0.0

    def _new_team(self, options: WorkerOptions) -> Team:
        codec, saver, middleware = self._codec, self._saver, self._middleware
        now, unknown_seconds = self._clock.now, options.unknown_seconds

        def for_thread(running: logs.CurrentJob, limits: ThreadLimits) -> Runner:
            return Runner(
                codec, saver, limits, running=running, now=now, middleware=middleware, unknown_seconds=unknown_seconds
            )

        def for_tasks(deadlines: Deadlines) -> TaskRunner:
            return TaskRunner(codec, saver, deadlines, now=now, middleware=middleware, unknown_seconds=unknown_seconds)

        if options.concurrency is not None:
            row = self._row
            return TaskTeam(options.capacity, self._waker, for_tasks, self._child.kill_at, lambda: row.stopped_ns)
        return ThreadTeam(options.capacity, self._waker, for_thread, self._child.kill_at)

    def work(self) -> None:
        """Run jobs until told to stop and all have ended, or until the burst is over."""
        while not self._is_finished:
            self._child.beat()
            self._run_once()
        self._shut_down()

    @property
    def _is_closing(self) -> bool:
        is_full = self._most_jobs is not None and self._jobs_started >= self._most_jobs
        return self._child.draining or self.is_spent or is_full

    @property
    def _is_finished(self) -> bool:
        if self._team.busy:
            return self._child.stopping_now  # what still runs is left to the keeper
        return self._is_closing or self._is_done

    def _run_once(self) -> None:
        self._waker.clear()
        self._collect_ended()
        delay_seconds = self._connect()
        self._saver.send_queued()
        if self._is_closing:
            self._fetcher.release_all()
        else:
            self._start()
        self._wait(delay_seconds or self._send_pending())

    def _close(self) -> None:
        self._team.close()

    # Running

    def _start(self) -> None:
        """Start fetched jobs; release those that wait too long."""
        fetcher, team = self._fetcher, self._team
        while team.free and (batch := fetcher.next_batch()) is not None:
            batch.area.states[0] = STARTING
            if batch.area.is_revoked:  # checked after the line above, so that the keeper and we cannot both take it
                self._ack_buffer.release(batch, batch.unstarted)
                continue
            batch.next = 1
            if self._burst is not None:
                self._burst.record_work_begin()
            team.start(batch)
            self._jobs_started += 1
        if fetcher.waiting and monotonic_ns() - fetcher.oldest_ns > HOLD_NS:
            fetcher.release_all()

    def _collect_ended(self) -> None:
        is_changed = False
        for batch, outcome, seconds in self._team.ended():
            self._saver.end(batch)
            self._recorder.record_wait(batch, 0)
            self._recorder.record(batch, 0, outcome, int(seconds * 1e9))
            self._fetcher.pace.record(1, seconds)
            self._jobs_done += 1
            is_changed = True
        if not is_changed:
            return
        self._child.status(f"jobs done: {self._jobs_done}")
        if self._burst is not None:
            self._burst.record_work_end()

    # Talking

    def _connect(self) -> float:
        """Connect; return 0, or the seconds until the next try."""
        remaining = self._try_at - monotonic()
        if remaining > 0:
            return remaining
        delay = self._ensure_connected()
        self._try_at = monotonic() + delay
        return delay

    def _send_pending(self) -> float | None:
        """Send acks and dequeues; return the seconds until the next try, if one is needed."""
        late = self._ack_buffer.late
        late.send()
        held = self._fetcher.retry_in_seconds
        if not (held or self._is_closing or self._fetcher.in_flight):
            self._request_jobs()
        if self._fetcher.in_flight == self._pipeline.in_flight:  # else a reply is due, after which one call sends more
            self._flush_now()
        if not self._pipeline.is_open:  # lost just now while sending, so no reply will wake us
            return _LOST_SECONDS
        refused = self._ack_buffer.retry_in_seconds if self._ack_buffer.has_pending else 0.0
        seconds = min(held or refused or math.inf, late.wait_seconds)
        return None if seconds == math.inf else seconds

    def _flush_now(self) -> None:
        """Send acks that no dequeue will carry soon; that also ends a parked dequeue."""
        if self._fetcher.in_flight and not self._is_parked:
            return  # the next dequeue will carry them
        if self._ack_buffer.has_pending:
            self._ack_buffer.flush()
        elif self._fetcher.in_flight and self._is_closing:
            self._fetcher.end_wait()

    def _request_jobs(self) -> None:
        """Dequeue as many jobs as can be started now or soon."""
        fetcher, most = self._fetcher, self._team.free - self._fetcher.waiting
        is_ahead = fetcher.fetches_ahead
        if is_ahead:
            if fetcher.waiting > fetcher.pace.limit // 2:
                return
            most += fetcher.pace.limit
        if self._most_jobs is not None:
            most = min(most, self._most_jobs - self._jobs_started - fetcher.waiting)
        most = fetcher.fitting(min(most, MAX_JOBS))
        if most > 0:
            wait_seconds = 0.0 if is_ahead else self._wait_seconds()
            self._is_parked = wait_seconds > 0.0
            fetcher.dequeue(wait_seconds, most)

    def _wait_seconds(self) -> float:
        if self._burst is None:
            return self._longest_poll_seconds
        return _BUSY_BURST_SECONDS if self._team.busy else self._poll_wait_seconds(self._burst)

    def _receive(self) -> None:
        self._pipeline.receive()
        while self._pipeline.has_reply:
            self._pipeline.receive()
        is_empty = self._fetcher.found_no_jobs and not (self._fetcher.in_flight or self._team.busy)
        if self._burst is not None and is_empty:
            self._burst.record_empty()

    # Waiting

    def _wait(self, seconds: float | None) -> None:
        """Wait until there is something to do, at most ``seconds``."""
        if self._pipeline.has_reply:
            self._receive()
            return
        held = (HOLD_NS - (monotonic_ns() - self._fetcher.oldest_ns)) / 1e9 if self._fetcher.waiting else None
        times = [time for time in (seconds, held, self._saver.retry_in_seconds, self._team.check()) if time is not None]
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        poll.register(self._child.wakeup_fd, select.POLLIN)
        connection = -1
        if self._pipeline.in_flight:
            connection = self._pipeline.fileno()
            poll.register(connection, select.POLLIN)
            times.append(self._pipeline.remaining_seconds)
        longest = min(times, default=_LONGEST_WAIT_SECONDS)
        ready = dict(poll.poll(1000 * min(max(longest, 0.0), _LONGEST_WAIT_SECONDS)))
        if self._child.wakeup_fd in ready:
            os.read(self._child.wakeup_fd, 64)
        if connection in ready or (connection >= 0 and not self._pipeline.remaining_seconds):
            self._receive()
