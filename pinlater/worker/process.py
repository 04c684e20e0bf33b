"""A job process: fetches, runs, settles; one thread, one connection."""

from __future__ import annotations

import logging
import os
import random
import secrets
import select
import socket
import time
from time import monotonic_ns

from pinlater_supervisor import Child

from pinlater.codec import JobCodec
from pinlater.errors import CallError, ServerUnavailable, ServiceError
from pinlater.wire.messages import RequestContext
from pinlater.worker.batch import Batch, queue_of
from pinlater.worker.burst import Burst
from pinlater.worker.connector import Connector
from pinlater.worker.fetcher import Fetcher
from pinlater.worker.holding import DISCARDED, FAILED, RUNNING, SUCCEEDED, Identity
from pinlater.worker.options import Options
from pinlater.worker.outcome import Failure, Outcome
from pinlater.worker.pipeline import Pipeline
from pinlater.worker.pools import JobPool
from pinlater.worker.runner import Runner
from pinlater.worker.saver import Saver
from pinlater.worker.settler import Settler
from pinlater.worker.shared import Shared
from pinlater.worker.turns import Turns

POLL_SECONDS = 10.0
"""How long the server may keep a dequeue until there is a job."""
_FLUSH_NS = 100_000_000
"""Acks wait no longer than this for the dequeue to ride on."""
_HOLD_NS = 200_000_000
"""Jobs that were fetched and not started after this time go back, for others to run."""
_LEAVE_SECONDS = 5.0
"""How long a process that stops looks for a server; what it cannot settle then is left to the keeper."""
_RETRY_SLACK_MS = 5
_SHORTEST_BURST_WAIT_SECONDS = 0.05
_LONGEST_BURST_WAIT_SECONDS = 1.0

log = logging.getLogger(__name__)


def new_identity(queues: list[str], kinds: list[str]) -> Identity:
    """Return an identity that no other process ever had, on any host."""
    host = socket.gethostname().replace(":", "_")
    return Identity(f"worker:{host}:{os.getpid()}:{secrets.token_hex(4)}", queues, kinds)


def _spread(max_jobs: int | None) -> int | None:
    """Shorten a number of jobs by up to a tenth, so that processes are not all replaced at once."""
    return None if max_jobs is None else max(1, round(max_jobs * (1 - 0.1 * random.random())))  # noqa: S311 - no secret


class JobProcess:
    """1. Asks for jobs, acks on board. 2. Runs them. 3. When told to stop, leaves nothing behind."""

    def __init__(self, child: Child, options: Options, pool: JobPool, codec: JobCodec, shared: Shared) -> None:
        self._child = child
        self._board = shared.board
        self._slot = shared.slot(pool.name, child.slot)
        self._burst = Burst(shared, self._slot, options.queues or codec.queues) if options.burst else None
        weights = pool.weights or dict.fromkeys(codec.queues, 1)
        identity = new_identity(list(weights), codec.names)
        self._slot.introduce(identity)
        context = RequestContext(source=identity.source)
        lease = options.lease_seconds
        self._connector = Connector(options.servers)
        self._pipeline = Pipeline(self._connector, child.wakeup_fd)
        self._settler = Settler(self._pipeline, context, lease, self._expect_retry)
        self._fetcher = Fetcher(self._pipeline, self._settler, self._slot, identity, lease, turns=Turns(weights))
        saver = Saver(self._pipeline, self._connector, context, child)
        self._runner = Runner(codec, identity.kinds, saver, lease, kill_at=child.kill_at)
        self._jobs_done = 0
        self._most_jobs = _spread(options.max_jobs)
        self._fetcher.misses_queue = True  # for all we know

    def reach_server(self, seconds: float) -> bool:
        """Connect, and create the queues, within ``seconds``; return whether that was possible."""
        deadline = time.monotonic() + seconds
        while not self._connect():
            if self._child.draining or time.monotonic() >= deadline:
                return False
        return True

    def work(self) -> None:
        """Work until told to stop, or until there is nothing left to do in a burst."""
        while not (self._child.draining or self._is_done):
            self._child.beat()
            batch = self._fetcher.next_batch()
            if batch is not None:
                self._fetcher.prefetch()
                self._run(batch)
            elif self._connect():
                self._fetch()
        self._leave()

    @property
    def _is_done(self) -> bool:
        if self._most_jobs is not None and self._jobs_done >= self._most_jobs:
            return True
        return self._burst is not None and self._fetcher.came_back_empty and self._burst.is_over

    # Fetching

    def _connect(self) -> bool:
        """Be connected, or wait a little; what a lost connection left behind comes first."""
        try:
            self._pipeline.open()
            self._fetcher.release_lost()
            if self._fetcher.misses_queue:
                self._fetcher.create_queues()
        except ServerUnavailable:
            self._pause(self._connector.delay_seconds)
            return False
        except (CallError, ServiceError) as error:
            log.warning("%s", error)
            self._pause(1.0)
            return False
        return True

    def _fetch(self) -> None:
        """Keep a dequeue waiting, and take the next reply to anything."""
        held = self._fetcher.held_seconds
        if held:
            self._settler.flush()
        elif not self._fetcher.in_flight:
            self._fetcher.ask(POLL_SECONDS if self._burst is None else self._look(self._burst))
        if not self._pipeline.in_flight:
            self._pause(held or self._settler.held_seconds or 0.05)
        elif self._pipeline.wait(held or None):
            self._pipeline.receive()
            if self._burst is not None and self._fetcher.came_back_empty and not self._fetcher.in_flight:
                self._burst.note_empty()

    def _look(self, burst: Burst) -> float:
        """Note that a dequeue of a burst is about to be sent; return how long it may wait for a job."""
        if not self._settler.is_settled:
            return 0.0
        burst.note_look()
        if not self._fetcher.came_back_empty:
            return 0.0
        retries_due_seconds = self._board.retries_due_ms / 1000 - time.monotonic()
        return min(max(retries_due_seconds, _SHORTEST_BURST_WAIT_SECONDS), _LONGEST_BURST_WAIT_SECONDS)

    def _expect_retry(self, delay_ms: int) -> None:
        self._slot.expect_retries(monotonic_ns() // 1_000_000 + delay_ms + _RETRY_SLACK_MS)

    def _pause(self, seconds: float) -> None:
        """Sleep, but not through a request to stop."""
        poll = select.poll()
        poll.register(self._child.wakeup_fd, select.POLLIN)
        poll.poll(seconds * 1000)

    # Running

    def _run(self, batch: Batch) -> None:
        """Run a batch, as far as nothing speaks against it; what is left goes back."""
        states, area, run, child = batch.area.states, batch.area, self._runner.run, self._child
        began = now = monotonic_ns()
        flush_at, first = now + _FLUSH_NS, batch.next
        if self._burst is not None:
            self._burst.note_begin()
        for position in batch.unstarted:
            if child.draining or now - began > _HOLD_NS:
                break
            states[position] = RUNNING
            if area.is_revoked:  # looked at after the line above, so that keeper and we cannot both take it
                break
            batch.next = position + 1
            outcome = run(batch, position, now)
            now = monotonic_ns()
            self._note(batch, position, outcome)
            if now >= flush_at:
                self._settler.flush()
                flush_at = now + _FLUSH_NS
        self._settler.give_back(batch, batch.unstarted)
        self._count(batch.next - first, (now - began) / 1e9)
        if self._burst is not None:
            self._burst.note_end()

    def _note(self, batch: Batch, position: int, outcome: Outcome | None) -> None:
        queue = queue_of(batch.descriptors[position])
        if outcome is None:
            batch.area.states[position] = SUCCEEDED
            self._settler.succeeded(queue, (batch, position))
        elif isinstance(outcome, Failure):
            batch.area.delays[position] = outcome.delay_ms
            batch.area.states[position] = DISCARDED if outcome.is_final else FAILED
            self._settler.failed(queue, (batch, position), outcome)
            self._settler.flush()  # the next job may kill the process, and the board has no room for the reason
        else:
            self._settler.give_back(batch, [position], outcome)

    def _count(self, jobs: int, seconds: float) -> None:
        self._fetcher.pace.note(jobs, seconds)
        self._jobs_done += jobs
        self._child.status(f"{self._jobs_done} jobs done")

    # Stopping

    def _leave(self) -> None:
        """Give back what was not started and settle the rest; what fails is left to the keeper."""
        self._fetcher.give_back_all()
        deadline = time.monotonic() + _LEAVE_SECONDS
        while not (self._is_clean or self._child.stopping_now or time.monotonic() >= deadline):
            try:
                self._pipeline.open()
                self._fetcher.release_lost()
            except (CallError, ServiceError):
                self._sleep()
                continue
            self._settler.flush()
            if self._fetcher.in_flight and self._pipeline.in_flight == 1:
                self._fetcher.end_wait()
            if self._pipeline.in_flight:
                self._pipeline.receive()
                self._fetcher.give_back_all()
            else:
                self._sleep()
        self._runner.close()
        self._pipeline.close()
        if self._burst is not None:
            self._burst.note_end()

    def _sleep(self) -> None:
        time.sleep(min(self._connector.delay_seconds, 0.2))

    @property
    def _is_clean(self) -> bool:
        return self._settler.is_settled and not self._pipeline.in_flight and not self._fetcher.has_lost
