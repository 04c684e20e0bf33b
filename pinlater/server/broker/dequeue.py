"""Dequeues: claim from the queues one after the other, and wait while there are no jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pinlater.errors import DequeueRateLimited, QueueNotFound, ServiceError
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, Claim, ClaimedJob, Dequeued
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import Caller, DequeueWait, Parking
from pinlater.server.broker.polling import QueuePoller
from pinlater.server.clock import elapsed_seconds
from pinlater.server.limits.rate_limits import RateLimits

log = logging.getLogger(__name__)

_HELD_MS = 500
"""When a limit of running jobs held jobs back, look again after this."""

_LONG_WAIT_SECONDS = 2.0
"""A dequeue that waits for less always asks the store, so that it finds jobs that other servers have confirmed."""

_SHORTEST_LEASE_SECONDS = 1.0
"""A lease that is shorter is over soon in any case; its jobs are handed out all the same."""


class DequeueRequest(NamedTuple):
    """What a dequeue wants.

    Attributes:
        queues: where jobs may come from; a later one is asked only for what the earlier ones lack.
        limit: most jobs to hand out.
        max_bytes: most bytes of an answer that their bodies may fill.
        new_claim: makes a claim for each call to the store. If an answer is lost, all jobs under its claim are given
            back, so no other call may use that claim.
        wait_seconds: how long it may wait when there is none.
    """

    queues: Sequence[str]
    limit: int
    max_bytes: int
    new_claim: Callable[[], Claim]
    wait_seconds: float


class DequeueResult(NamedTuple):
    """The jobs that a dequeue got.

    Attributes:
        jobs: by queue.
        claim: of all of them; None after a dry run.
        since: when the claim was made, in ``elapsed_seconds``.
    """

    jobs: dict[str, list[ClaimedJob]]
    claim: Claim | None = None
    since: float = 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether the lease may be over by now, so that others may hold the jobs: this server stood still."""
        if self.claim is None:
            return False
        return elapsed_seconds() - self.since >= max(self.claim.lease_ms / 1000, _SHORTEST_LEASE_SECONDS)


class DequeueHandler:
    """Carries out dequeues.

    Args:
        backend: the store.
        limits: rate limits of queues.
        parking: the queues that are asked for.
        now_ms: the clock of the store.
        observe: is told how many seconds each dequeue took in the store.

    Attributes:
        waiting: how many dequeues wait now; one that waits for several queues is one.
        is_closing: whether none may wait any more.
    """

    def __init__(
        self,
        backend: Store,
        limits: RateLimits,
        parking: Parking,
        now_ms: Callable[[], int],
        observe: Callable[[str, float], None],
    ) -> None:
        self.waiting = 0
        self.is_closing = False
        self._backend = backend
        self._limits = limits
        self._parking = parking
        self._now_ms = now_ms
        self._observe = observe
        self._is_serial = backend.capabilities.is_serial
        self._poller = QueuePoller(backend, parking, now_ms)

    async def dequeue(self, order: DequeueRequest, caller: Caller) -> DequeueResult:
        """Return jobs; none when none came in time.

        Raises:
            QueueNotFound: there is no such queue (any more).
            DequeueRateLimited: all queues are paused or have spent their rate, also at the end of the wait.
        """
        is_told = self._is_serial or order.wait_seconds >= _LONG_WAIT_SECONDS
        found = await self._take(order, is_told=is_told)
        if found.jobs or order.wait_seconds <= 0 or self.is_closing or caller.is_hurried:
            return self._answer(order, found)
        wait = DequeueWait(order.limit, order.wait_seconds)
        caller.park(wait)
        try:
            while not (found.jobs or wait.is_over or caller.is_gone or self.is_closing):
                delay = self._seconds_until_look(order)
                if delay != 0:
                    await self._sleep(order, wait, delay)
                found = await self._take(order, wait, is_told=is_told or not wait.is_over)
        finally:
            caller.park(None)
            wait.end()
            self._leave(order, wait)
        return self._answer(order, found)

    def stop(self) -> None:
        """Let none wait any more."""
        self.is_closing = True
        self._poller.stop()

    def _answer(self, order: DequeueRequest, found: DequeueResult) -> DequeueResult:
        if not found.jobs and all(self._limits.seconds_until_next(queue) != 0 for queue in order.queues):
            raise DequeueRateLimited(
                f"queue {order.queues[0]!r} is paused"
                if self._limits.is_paused(order.queues[0])
                else f"queue {order.queues[0]!r} has handed out all that its rate allows for now"
            )
        return found

    def _seconds_until_look(self, order: DequeueRequest) -> float:
        """Return when to look again though nothing arrives; 0 is now: something did.

        Read once and passed on: between two readings, a limit may let go, and nothing would end the sleep.
        """
        delays = [
            self._limits.seconds_until_next(queue)
            for queue in order.queues
            if not self._parking.at(queue).is_known_empty
        ]
        return min((delay for delay in delays if delay is not None), default=self._parking.belief_seconds)

    async def _take(self, order: DequeueRequest, wait: DequeueWait | None = None, *, is_told: bool) -> DequeueResult:
        """Claim from one queue after the other; what was claimed is handed out even if a later queue fails.

        Args:
            order: of the dequeue.
            wait: its wait, when it has waited.
            is_told: whether to skip queues that are known to be empty: the broker is told in time when jobs come.
        """
        taken: dict[str, list[ClaimedJob]] = {}
        claim, since = order.new_claim(), elapsed_seconds()
        wanted, room = order.limit, order.max_bytes
        for queue in order.queues:
            if is_told and self._parking.at(queue).is_known_empty:
                continue
            try:
                jobs = await self._take_from(queue, wanted, room, claim, wait)
            except Exception as error:
                if not taken:
                    raise
                is_ours = not isinstance(error, ServiceError)
                log.log(
                    logging.ERROR if is_ours else logging.DEBUG,
                    "queue %s failed; the jobs of the queues before it are handed out: %s",
                    queue,
                    error,
                    exc_info=is_ours,
                )
                break
            if not jobs:
                continue
            taken[queue] = jobs
            wanted -= len(jobs)
            room -= sum(len(job.body) + JOB_OVERHEAD_BYTES for job in jobs)
            if wanted <= 0 or room < order.max_bytes / 2:
                break
        return DequeueResult(taken, claim, since)

    async def _take_from(
        self, queue: str, wanted: int, room: int, claim: Claim, wait: DequeueWait | None
    ) -> list[ClaimedJob]:
        parked = self._parking.at(queue)
        arrival_count = parked.arrival_count
        allowed = taken = 0
        try:
            allowed = await self._limits.take(queue, wanted)
            if allowed <= 0:
                return []  # a wait that was woken for this queue still has to look
            found = await self._claim(queue, allowed, room, claim)
            taken = len(found.jobs)
        except QueueNotFound:
            self._parking.forget(queue)  # or anybody could fill the memory with names
            raise
        except BaseException:
            if wait is not None:  # the next in line looks later (see doubt): at once it would fail, too
                parked.looked(wait)
            parked.doubt()
            raise
        finally:
            if taken < allowed:
                self._limits.give_back(queue, allowed - taken)
        if wait is not None:
            parked.looked(wait)
        if found.has_more:
            parked.wake_next()
        elif found.is_held:  # running jobs may end on another server, which does not announce that
            parked.came_back_short(arrival_count, self._now_ms() + _HELD_MS, is_held=True)
        else:
            parked.came_back_short(arrival_count, found.next_due_ms)
        if taken and not self._is_serial:
            self._poller.follow(queue, is_busy=True)
        return found.jobs

    async def _claim(self, queue: str, allowed: int, room: int, claim: Claim) -> Dequeued:
        started = time.perf_counter()
        try:
            return await self._backend.dequeue_jobs(
                queue,
                allowed,
                claim,
                max_bytes=room,
                want_next_due=True,
                max_running=self._limits.max_running(queue),
            )
        finally:
            self._observe("dequeue", time.perf_counter() - started)

    async def _sleep(self, order: DequeueRequest, wait: DequeueWait, seconds: float) -> None:
        """Sleep until a job of one of the queues may be there; one timer does for all of them."""
        queues = [self._parking.at(queue) for queue in order.queues]
        for name, queue in zip(order.queues, queues, strict=True):
            queue.add(wait)
            self._poller.follow(name)
        self.waiting += 1
        try:
            await wait.at_most(seconds)
        finally:
            self.waiting -= 1
            for queue in queues:
                queue.remove(wait)

    def _leave(self, order: DequeueRequest, wait: DequeueWait) -> None:
        for name in order.queues:
            parked = self._parking.get(name)
            if parked is not None:
                parked.leave(wait)
