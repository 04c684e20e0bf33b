"""A job process: fetches, runs, settles; one connection, and one thread that talks on it.

How the jobs are run is told in ``solo`` and ``team_process``.
"""

from __future__ import annotations

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
from pinlater.jobs.loader import load_middleware
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.burst import Burst
from pinlater.worker.claim_table.counters import UNREADABLE
from pinlater.worker.claim_table.snapshot import DISCARDED, FAILED, SUCCEEDED, Identity
from pinlater.worker.log_once import Complaint
from pinlater.worker.options import Options
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.periodic_scheduler import Planter, Seeds
from pinlater.worker.session.ack_buffer import Settler
from pinlater.worker.session.batch import Batch, queue_of
from pinlater.worker.session.connector import Connector
from pinlater.worker.session.fetcher import Fetcher
from pinlater.worker.session.outcome import Failure, GivenBack, Lost, Outcome
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.server_clock import ServerClock
from pinlater.worker.session.weighted_round_robin import Turns
from pinlater.worker.shared import Shared

POLL_SECONDS = 10.0
"""How long the server may keep a dequeue until there is a job."""
HOLD_NS = 200_000_000
"""Jobs that were fetched and not started after this time go back, for others to run."""
_LEAVE_SECONDS = 5.0
"""How long a process that stops looks for a server; what it cannot settle then is left to the keeper."""
_RETRY_SLACK_MS = 5
_MOST_UNKNOWN_NAMES = 16
_SHORTEST_BURST_WAIT_SECONDS = 0.05
_LONGEST_BURST_WAIT_SECONDS = 1.0

log = logging.getLogger(__name__)


def _spread(max_jobs: int | None) -> int | None:
    """Shorten a number of jobs by up to a tenth, so that processes are not all replaced at once."""
    return None if max_jobs is None else max(1, round(max_jobs * (1 - 0.1 * random.random())))  # noqa: S311 - no secret


class JobProcess(ABC):
    """1. Asks for jobs, acks on board. 2. Runs them. 3. When told to stop, leaves nothing behind.

    Args:
        child: the process.
        options: of the worker.
        pool: the one that the process belongs to.
        codec: of the job classes.
        shared: with the other processes.

    Raises:
        ConfigError: middleware that the options name cannot be had.
    """

    def __init__(self, child: Child, options: Options, pool: JobPool, codec: JobCodec, shared: Shared) -> None:
        self._middleware = load_middleware(options.middleware)
        self._child = child
        self._board = shared.board
        self._slot = shared.slot(pool.name, child.slot)
        self._burst = Burst(shared, self._slot, options.queues or codec.queues) if options.burst else None
        weights = pool.weights or dict.fromkeys(codec.queues, 1)
        identity = self._identity = Identity(
            shared.origin.new_source(os.getpid()),
            list(weights),
            codec.names,
            options.places,
            pid=os.getpid(),
            started_ms=int(time.time() * 1000),
        )
        self._slot.introduce(identity)
        self._sheet = shared.sheet(pool.name, child.slot)
        self._sheet.introduce(identity.kinds)
        calls = self._calls = Calls(identity.source, is_plain=True)
        lease = self._lease_seconds = options.lease_seconds
        self._connector = Connector(options.servers, contact=self._slot.contact)
        self._clock = ServerClock()
        self._pipeline = Pipeline(self._connector, child.wakeup_fd)
        self._settler = Settler(self._pipeline, calls, lease, self._expect_retry, self._sheet.note_event)
        self._fetcher = Fetcher(
            *(self._pipeline, self._settler, self._slot, identity, lease),
            turns=Turns(weights),
            clock=self._clock,
            count=self._sheet.note_event,
        )
        self._planter = Planter(self._pipeline, calls, Seeds(codec.kinds, identity.queues), self._clock)
        self._codec = codec
        self._complaint = Complaint(log, "%s")
        self._jobs_done = 0
        self._unknown_names: set[str] = set()
        self._most_jobs = _spread(options.max_jobs)
        self._fetcher.misses_queue = True  # for all we know

    def reach_server(self, seconds: float) -> bool:
        """Connect, and create the queues, within ``seconds``; return whether that was possible."""
        deadline = time.monotonic() + seconds
        while delay := self._reach():
            if self._child.draining or time.monotonic() >= deadline:
                return False
            self._pause(delay)
        return True

    @abstractmethod
    def work(self) -> None:
        """Work until told to stop, or until there is nothing left to do in a burst."""

    @abstractmethod
    def _close(self) -> None:
        """End what jobs left behind."""

    @property
    def _is_done(self) -> bool:
        if self._has_run_enough:
            return True
        return self._burst is not None and self._fetcher.came_back_empty and self._burst.is_over

    @property
    def _has_run_enough(self) -> bool:
        return self._jobs_left == 0

    @property
    def _jobs_left(self) -> int | None:
        """How many more jobs the process may run; None: any number."""
        return None if self._most_jobs is None else max(self._most_jobs - self._jobs_done, 0)

    # Fetching

    def _reach(self) -> float:
        """Be connected; what a lost connection left behind comes first. Return 0, or after how long to try again."""
        try:
            self._pipeline.open()
            self._fetcher.release_lost()
            if self._fetcher.misses_queue:
                self._fetcher.create_queues()
                self._planter.renew()
            self._planter.plant_when_due()
        except ServerUnavailable:
            return self._connector.delay_seconds
        except (CallError, ServiceError) as error:
            self._complaint.say(error)
            return 1.0
        self._complaint.end()
        return 0.0

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

    def _note(self, batch: Batch, position: int, outcome: Outcome | None, nanoseconds: int) -> None:
        queue = queue_of(batch.descriptors[position])
        if outcome is None:
            self._sheet.note(queue, batch.area.kinds[position], nanoseconds)
            batch.area.states[position] = SUCCEEDED
            self._settler.succeeded(queue, (batch, position))
            return
        if isinstance(outcome, GivenBack):
            self._sheet.note_named(queue, self._unknown_name(outcome.name), outcome.ending, nanoseconds)
            self._settler.give_back(batch, [position], outcome)
            return  # it can wait for the others: were this process to die now, the job would only be due at once
        if outcome.ending == UNREADABLE:
            self._sheet.note_named(queue, f"({UNREADABLE})", UNREADABLE, nanoseconds)
        else:
            self._sheet.note_other(queue, batch.area.kinds[position], outcome.ending, nanoseconds)
        if isinstance(outcome, Lost):
            batch.settled(position)
        elif isinstance(outcome, Failure):
            batch.area.delays[position] = outcome.delay_ms or 0
            batch.area.states[position] = DISCARDED if outcome.delay_ms is None else FAILED
            self._settler.failed(queue, (batch, position), outcome)
        else:
            self._settler.give_back(batch, [position], outcome)
            self._settler.flush()  # were this process to die now, the job would be due at once instead of when it said

    def _unknown_name(self, name: str) -> str:
        """Return the name by which an unknown class is counted: whoever enqueues may invent any number of them."""
        if len(self._unknown_names) < _MOST_UNKNOWN_NAMES:
            self._unknown_names.add(name)
        return name if name in self._unknown_names else f"({UNREADABLE})"

    # Stopping

    def _leave(self) -> None:
        """Give back what was not started and settle the rest; what fails is left to the keeper."""
        if self._has_run_enough:
            log.info("--max-jobs: %d jobs were run; a new process follows", self._jobs_done)
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
        self._close()
        self._pipeline.close()
        if self._burst is not None:
            self._burst.note_end()

    def _sleep(self) -> None:
        time.sleep(min(self._connector.delay_seconds, 0.2))

    @property
    def _is_clean(self) -> bool:
        return self._settler.is_settled and not self._pipeline.in_flight and not self._fetcher.has_lost
