"""Carry out dequeues: claim from one queue after the other, and wait while there are no jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pinlater.errors import DequeueRateLimited, QueueNotFound, ServiceError
from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.poll_of_all import PollAll
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, Claim, Dequeued
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.broker.parking import Caller, DequeueWait, QueueState
from pinlater.server.broker.polling import QueuePoller
from pinlater.server.broker.queue_states import QueueStates
from pinlater.server.clock import elapsed_seconds
from pinlater.server.limits.rate_limits import RateLimits

log = logging.getLogger(__name__)

_RUNNING_LIMIT_RETRY_MS = 500
"""When a limit of running jobs prevented a claim, try again after this time."""

_LONG_WAIT_SECONDS = 2.0
"""A dequeue with a shorter wait asks the store even if the queue is known to be empty, since other servers may just
have stored jobs, unless clients poll the queue (see ``QueueState.is_polled``) or there is no other server."""

_SHORTEST_LEASE_SECONDS = 1.0
"""Jobs with a shorter lease are handed out even if it may have expired: a lease that short expires soon anyway."""


class DequeueRequest(NamedTuple):
    """What a dequeue asks for.

    Attributes:
        queues: the queues to claim from, in order; a later one only adds what the earlier ones lack.
        limit: most jobs to claim.
        max_bytes: most bytes that the job bodies may take in the answer.
        new_claim: creates a claim for each attempt at all queues. If an answer of the store is lost, all jobs of the
            queue under that claim are returned, so no two attempts may share a claim.
        wait_seconds: how long to wait while there are no jobs.
    """

    queues: Sequence[str]
    limit: int
    max_bytes: int
    new_claim: Callable[[], Claim]
    wait_seconds: float


class DequeueResult(NamedTuple):
    """The jobs that a dequeue claimed.

    Attributes:
        jobs: by queue.
        claim: the claim that holds all of them; None after a dry run.
        claimed_at: when the claim was created, in ``elapsed_seconds``.
    """

    jobs: dict[str, list[DequeuedJob]]
    claim: Claim | None = None
    claimed_at: float = 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether this server stalled for so long that the lease may have expired, and others may hold the jobs."""
        if self.claim is None:
            return False
        return elapsed_seconds() - self.claimed_at >= max(self.claim.lease_ms / 1000, _SHORTEST_LEASE_SECONDS)


class DequeueHandler:
    """Carries out dequeues.

    Args:
        backend: the store.
        limits: rate limits of queues.
        queues: the known state of each queue.
        observe: receives the seconds that each dequeue took in the store.
        poll_all: see ``QueuePoller``.
        offer_rest: called with a queue of which a claim has left jobs that nobody waits for here, and with whether the
            dequeue had waited for them, so that the queue was empty before they came.
        pass_on: called with a queue that has such jobs, if no other server or process has heard of them.

    Attributes:
        poller: polls the queues that dequeues wait for.
        waiting: number of parked dequeues; one that waits for several queues counts once.
        is_stopping: whether no dequeue may wait any more.
    """

    def __init__(
        self,
        backend: ServerStore,
        limits: RateLimits,
        queues: QueueStates,
        observe: Callable[[str, float], None],
        *,
        poll_all: PollAll | None,
        offer_rest: Callable[[str, bool], None],
        pass_on: Callable[[str], None],
    ) -> None:
        self.waiting = 0
        self._offer_rest = offer_rest
        self._pass_on = pass_on
        self.is_stopping = False
        self._backend = backend
        self._limits = limits
        self._queues = queues
        self._now_ms = backend.now_ms
        self._observe = observe
        self._is_serial = backend.capabilities.is_serial
        self.poller = QueuePoller(backend, queues, poll_all)

    async def dequeue(self, request: DequeueRequest, caller: Caller) -> DequeueResult:
        """Claim jobs, waiting for them if the request allows it; return none if none came in time.

        Raises:
            QueueNotFound: a queue does not exist, or was deleted, and the others have no jobs now.
            DequeueRateLimited: no job was claimed, and in the end all queues are paused or have used up their rate.
        """
        skip_known_empty = self._is_serial or request.wait_seconds >= _LONG_WAIT_SECONDS
        found = await self._claim_from_all(request, skip_known_empty=skip_known_empty)
        if request.wait_seconds <= 0:
            self._follow_polls(request, found)
        if found.jobs or request.wait_seconds <= 0 or self.is_stopping or caller.cannot_wait:
            return self._check_rate_limited(request, found)
        wait = DequeueWait(caller, request.wait_seconds, request.limit)
        caller.park(wait)
        try:
            while not (found.jobs or wait.is_over or caller.is_gone or self.is_stopping):
                delay = self._seconds_until_retry(request, wait)
                if delay != 0:
                    await self._sleep(request, wait, delay)
                found = await self._claim_from_all(request, wait, skip_known_empty=skip_known_empty or not wait.is_over)
        finally:
            caller.unpark(wait)
            wait.end()
            self._leave(request, wait)
        return self._check_rate_limited(request, found)

    def _follow_polls(self, request: DequeueRequest, found: DequeueResult) -> None:
        """Let the poller poll queues that clients poll in vain, together with all others, instead of at each call."""
        for queue in request.queues:
            state = self._queues.get(queue)
            if state is None:
                continue
            if found.jobs:
                state.forget_polls()
                continue
            state.record_empty_poll()
            if state.is_polled:
                self.poller.follow(queue)

    def stop(self) -> None:
        """Stop polling, and let no dequeue wait any more."""
        self.is_stopping = True
        self.poller.stop()

    def _check_rate_limited(self, request: DequeueRequest, found: DequeueResult) -> DequeueResult:
        if not found.jobs and all(self._limits.seconds_until_next(queue) != 0 for queue in request.queues):
            raise DequeueRateLimited(
                f"queue {request.queues[0]!r} is paused"
                if self._limits.is_paused(request.queues[0])
                else f"queue {request.queues[0]!r} has reached its rate limit for now"
            )
        return found

    def _seconds_until_retry(self, request: DequeueRequest, wait: DequeueWait) -> float:
        """Return the seconds until the next attempt if nothing wakes the dequeue; 0: at once.

        Computed once and passed on: if a limit ended between two computations, nothing would end the sleep.
        """
        delays = [
            self._limits.seconds_until_next(queue)
            for queue in request.queues
            if not (state := self._queues.get_or_add(queue)).is_known_empty or state.is_woken(wait)
        ]
        return min((delay for delay in delays if delay is not None), default=self._queues.known_empty_seconds)

    async def _claim_from_all(
        self, request: DequeueRequest, wait: DequeueWait | None = None, *, skip_known_empty: bool
    ) -> DequeueResult:
        """Claim from one queue after the other; return what was claimed even if a later queue fails.

        A queue that does not exist is skipped. Any other error ends the walk, since the store would most likely fail
        for the next queue, too.

        Args:
            request: what the dequeue asks for.
            wait: the parked dequeue; None on the first attempt, before it has waited.
            skip_known_empty: skip queues known to be empty, since the broker is notified in time when jobs arrive.
        """
        taken: dict[str, list[DequeuedJob]] = {}
        missing: QueueNotFound | None = None
        claim, claimed_at = request.new_claim(), elapsed_seconds()
        wanted, bytes_left = request.limit, request.max_bytes
        for queue in request.queues:
            state = self._queues.get_or_add(queue)
            is_left_out = skip_known_empty or (state.is_polled and wait is None)
            if is_left_out and state.is_known_empty and not state.is_woken(wait):
                continue
            try:
                jobs = await self._claim_from(queue, wanted, bytes_left, claim, wait)
            except QueueNotFound as error:
                missing = missing or error
                continue
            except Exception as error:
                if not taken:
                    raise
                is_bug = not isinstance(error, ServiceError)
                log.log(
                    logging.ERROR if is_bug else logging.DEBUG,
                    "dequeue from queue %s failed; only the jobs of the queues before it are handed out: %s",
                    queue,
                    error,
                    exc_info=is_bug,
                )
                break
            if not jobs:
                continue
            taken[queue] = jobs
            wanted -= len(jobs)
            bytes_left -= sum(len(job.body) + JOB_OVERHEAD_BYTES for job in jobs)
            if wanted <= 0 or bytes_left < request.max_bytes / 2:
                break
        if missing is not None and not taken:
            raise missing
        return DequeueResult(taken, claim, claimed_at)

    async def _claim_from(
        self, queue: str, wanted: int, bytes_left: int, claim: Claim, wait: DequeueWait | None
    ) -> list[DequeuedJob]:
        state = self._queues.get_or_add(queue)
        arrival_count = state.arrival_count
        allowed = taken = 0
        try:
            allowed = await self._limits.acquire(queue, wanted)
            if allowed <= 0:
                return []  # not an attempt: a dequeue woken for this queue still has to try
            found = await self._claim(queue, allowed, bytes_left, claim)
            taken = len(found.jobs)
        except QueueNotFound:
            self._queues.forget(queue)  # or invented names could fill the memory
            raise
        except BaseException:
            state.record_attempt(wait)
            state.mark_uncertain()  # the next in line tries later: now it would fail, too
            if not (state.exists or state.has_waiters):
                self._queues.forget(queue)  # as above: the store could not say whether the name is invented
            raise
        finally:
            if taken < allowed:
                self._limits.give_back(queue, allowed - taken)
        state.exists = True
        state.record_attempt(wait)
        if self._is_on_the_way(found, state, wait):
            self.poller.look_again(queue)
            found = found._replace(has_more=False, next_due_ms=None)
        if found.has_more:
            if not state.more_are_due():
                if found.lets_through:
                    self._pass_on(queue)
                else:
                    self._offer_rest(queue, wait is not None)
        elif found.is_held:  # jobs that end on another server are not announced
            state.record_shortfall(arrival_count, self._now_ms() + _RUNNING_LIMIT_RETRY_MS, is_at_running_limit=True)
        else:
            state.record_shortfall(arrival_count, found.next_due_ms)
        if taken and not self._is_serial:
            self.poller.follow(queue, is_busy=True)
        return found.jobs

    def _is_on_the_way(self, found: Dequeued, state: QueueState, wait: DequeueWait | None) -> bool:
        """Return whether other dequeues are on the way to the jobs that a claim has left.

        When two dequeues at different servers were each woken for one of two jobs, whichever comes first takes the
        first job and sees the other: as due, or as due in a moment, since the clocks of servers differ a little.
        """
        if found.lets_through or not state.is_attended:
            return False
        if found.has_more:
            return wait is not None and len(found.jobs) >= wait.limit and self.poller.leeway_ms > 0
        return found.next_due_ms is not None and found.next_due_ms - self._now_ms() < self.poller.leeway_ms

    async def _claim(self, queue: str, allowed: int, bytes_left: int, claim: Claim) -> Dequeued:
        started = time.perf_counter()
        try:
            return await self._backend.dequeue_jobs(
                queue,
                allowed,
                claim,
                max_bytes=bytes_left,
                want_next_due=True,
                max_running=self._limits.max_running(queue),
            )
        finally:
            self._observe("dequeue", time.perf_counter() - started)

    async def _sleep(self, request: DequeueRequest, wait: DequeueWait, seconds: float) -> None:
        """Sleep until one of the queues may have a job, with one timer for all of them."""
        queues = [self._queues.get_or_add(queue) for queue in request.queues]
        for name, queue in zip(request.queues, queues, strict=True):
            queue.add(wait)
            self.poller.follow(name)
        self.waiting += 1
        try:
            await wait.at_most(seconds)
        finally:
            self.waiting -= 1
            for queue in queues:
                queue.remove(wait)

    def _leave(self, request: DequeueRequest, wait: DequeueWait) -> None:
        for name in request.queues:
            state = self._queues.get(name)
            if state is not None and not state.leave(wait):
                self._pass_on(name)
