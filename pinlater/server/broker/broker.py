"""Between the service and a store: every call that makes jobs claimable, or claims them, passes here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from pinlater.descriptor import JobDescriptor
from pinlater.errors import DequeueRateLimited, QueueNotFound
from pinlater.server.backends.contract import (
    JOB_OVERHEAD_BYTES,
    Ack,
    Backend,
    Checkpoint,
    Claim,
    ClaimedJob,
    Expired,
    JobRecord,
    NewJob,
    Settled,
)
from pinlater.server.broker.parking import Caller, ParkedQueue, Wait
from pinlater.server.broker.returns import Returns
from pinlater.server.clock import elapsed_seconds
from pinlater.server.rate_limits import RateLimits

_T = TypeVar("_T")

_SHORTEST_LEASE_SECONDS = 1.0
"""A lease that is shorter is over soon in any case; its jobs are handed out all the same."""

_HELD_MS = 500
"""When a limit of running jobs held jobs back, look again after this."""


class DequeueOrder(NamedTuple):
    """What a dequeue wants.

    Attributes:
        queues: where jobs may come from; a later one is asked only for what the earlier ones lack.
        limit: most jobs to hand out.
        max_bytes: most bytes of an answer that their bodies may fill.
        new_claim: makes a claim for each time that the store is asked. Should its answer get lost, all that is claimed
            under it can be given back; so it must not hold jobs of a later time as well.
        wait_seconds: how long it may wait when there is none.
    """

    queues: Sequence[str]
    limit: int
    max_bytes: int
    new_claim: Callable[[], Claim]
    wait_seconds: float


class HandedOut(NamedTuple):
    """What a dequeue got.

    Attributes:
        jobs: by queue.
        claim: holds all of them; None: they were only looked at.
        since: when it was made, in ``elapsed_seconds``.
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


class Broker:
    """Hands out jobs, and lets those who may wait for them do so without asking the store again and again.

    Args:
        backend: the store.
        limits: rate limits of queues.
        now_ms: the clock of the store.
        observe: is told how many seconds each enqueue, dequeue, ack and checkpoint took in the store.

    Attributes:
        tell_others: is called with a queue that has jobs which nobody here waits for, and when they fall due, in epoch
            milliseconds, None: now. None, where there are no others, or the store tells them.
    """

    def __init__(
        self,
        backend: Backend,
        limits: RateLimits,
        now_ms: Callable[[], int],
        observe: Callable[[str, float], None] = lambda _, __: None,
    ) -> None:
        self.tell_others: Callable[[str, int | None], None] | None = None
        self._backend = backend
        self._limits = limits
        self._now_ms = now_ms
        self._observe = observe
        self._parked: dict[str, ParkedQueue] = {}
        self._parked_dequeues = 0
        self._returns = Returns(self.checkpoint)
        self._is_closing = False

    @property
    def parked_dequeues(self) -> int:
        """How many dequeues wait now; one that waits for several queues is one."""
        return self._parked_dequeues

    def _at(self, queue: str) -> ParkedQueue:
        parked = self._parked.get(queue)
        if parked is None:
            parked = self._parked[queue] = ParkedQueue(self._now_ms)
        return parked

    async def _timed(self, operation: str, queue: str, call: Awaitable[_T]) -> _T:
        started = time.perf_counter()
        try:
            return await self._doubting(queue, call)
        finally:
            self._observe(operation, time.perf_counter() - started)

    async def _doubting(self, queue: str, call: Awaitable[_T]) -> _T:
        """Believe nothing of the queue when a call fails: it may have been carried out, or have kept jobs waiting."""
        try:
            return await call
        except QueueNotFound:
            raise
        except BaseException:
            if queue in self._parked:
                self._parked[queue].doubt()
            raise

    async def give_back(self, found: HandedOut) -> None:
        """Return what was claimed for an answer that nobody gets, no attempt spent."""
        if found.claim is not None:
            await self._returns.give_back(found.jobs, found.claim.descriptor)

    # Handing out

    async def dequeue(self, order: DequeueOrder, caller: Caller) -> HandedOut:
        """Return jobs; none when none came in time.

        Raises:
            QueueNotFound: there is no such queue (any more).
            DequeueRateLimited: all queues are paused or have spent their rate, also at the end of the wait.
        """
        found = await self._take(order)
        if found.jobs or order.wait_seconds <= 0 or self._is_closing or caller.is_hurried:
            return self._answer(order, found)
        wait = Wait(order.limit, order.wait_seconds)
        caller.park(wait)
        try:
            while not (found.jobs or wait.is_over or caller.is_gone):
                delay = self._seconds_until_look(order)
                if delay != 0:
                    await self._sleep(order, wait, delay)
                found = await self._take(order)
        finally:
            caller.park(None)
            wait.end()
        return self._answer(order, found)

    def _answer(self, order: DequeueOrder, found: HandedOut) -> HandedOut:
        if not found.jobs and all(self._limits.seconds_until_next(queue) != 0 for queue in order.queues):
            raise DequeueRateLimited(
                f"queue {order.queues[0]!r} is paused"
                if self._limits.is_paused(order.queues[0])
                else f"queue {order.queues[0]!r} has handed out all that its rate allows for now"
            )
        return found

    def _seconds_until_look(self, order: DequeueOrder) -> float | None:
        """Return when to look again though nothing arrives: 0 is now (something did), None is never.

        Read once and passed on: between two readings, a limit may let go, and nothing would end the sleep.
        """
        delays = [
            self._limits.seconds_until_next(queue) for queue in order.queues if not self._at(queue).is_known_empty
        ]
        return min((delay for delay in delays if delay is not None), default=None)

    async def _take(self, order: DequeueOrder) -> HandedOut:
        taken: dict[str, list[ClaimedJob]] = {}
        claim, since = order.new_claim(), elapsed_seconds()
        wanted, room = order.limit, order.max_bytes
        for queue in order.queues:
            jobs = await self._take_from(queue, wanted, room, claim)
            if jobs:
                taken[queue] = jobs
                wanted -= len(jobs)
                room -= sum(len(job.body) + JOB_OVERHEAD_BYTES for job in jobs)
                if wanted <= 0 or room < order.max_bytes / 2:
                    break
        return HandedOut(taken, claim, since)

    async def _take_from(self, queue: str, wanted: int, room: int, claim: Claim) -> list[ClaimedJob]:
        parked = self._at(queue)
        if self._backend.capabilities.is_serial and parked.is_known_empty:
            return []
        arrivals = parked.arrivals
        allowed = taken = 0
        try:
            allowed = await self._limits.take(queue, wanted)
            if allowed <= 0:
                return []
            claiming = self._backend.dequeue_jobs(
                queue,
                allowed,
                claim,
                max_bytes=room,
                want_next_due=True,
                max_running=self._limits.max_running(queue),
            )
            found = await self._timed("dequeue", queue, claiming)
            taken = len(found.jobs)
        except QueueNotFound:
            self._parked.pop(queue, None)  # or anybody could fill the memory with names
            raise
        finally:
            if taken < allowed:
                self._limits.give_back(queue, allowed - taken)
        if found.has_more:
            parked.wake_next()
        elif found.is_held:  # jobs may end on another server, which nobody tells us of
            parked.came_back_short(arrivals, self._now_ms() + _HELD_MS)
        else:
            parked.came_back_short(arrivals, self._next_look_ms(found.next_due_ms))
        return found.jobs

    def _next_look_ms(self, next_due_ms: int | None) -> int | None:
        """Return when to look though nobody tells of new jobs: other servers may have stored some."""
        pause_ms = self._backend.capabilities.look_again_ms
        if pause_ms is None:
            return next_due_ms
        look_ms = self._now_ms() + pause_ms
        return look_ms if next_due_ms is None else min(next_due_ms, look_ms)

    async def _sleep(self, order: DequeueOrder, wait: Wait, seconds: float | None) -> None:
        parked = [self._at(queue) for queue in order.queues]
        for queue in parked:
            queue.add(wait)
        alarm = None if seconds is None else asyncio.get_running_loop().call_later(seconds, wait.wake)
        self._parked_dequeues += 1
        try:
            await wait()
        finally:
            self._parked_dequeues -= 1
            if alarm is not None:
                alarm.cancel()
            for queue in parked:
                queue.remove(wait)

    async def peek(self, queue: str, limit: int, max_bytes: int) -> list[ClaimedJob]:
        """Return what a dequeue would hand out.

        Raises:
            DequeueRateLimited: the queue is paused.
        """
        if self._limits.is_paused(queue):
            raise DequeueRateLimited(f"queue {queue!r} is paused")
        return await self._backend.peek_jobs(queue, limit, max_bytes=max_bytes)

    # Making jobs claimable

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> list[str]:
        """Store jobs and hand them to whoever waits for them; see ``Backend.enqueue_jobs``."""
        storing = self._timed("enqueue", queue, self._backend.enqueue_jobs(queue, jobs))
        if self._backend.capabilities.is_serial:
            # Woken before the jobs are stored, the waiting dequeues claim in the same transaction.
            self._announce(queue, jobs)
            return await storing
        descriptors = await storing
        self._announce(queue, jobs)
        return descriptors

    def _announce(self, queue: str, jobs: Sequence[NewJob]) -> None:
        if queue not in self._parked and self.tell_others is None:
            return
        now = self._now_ms()
        later = [job.run_after_ms for job in jobs if job.run_after_ms is not None and job.run_after_ms > now]
        if len(jobs) > len(later):
            self._arrived(queue, len(jobs) - len(later))
        if later:
            self._arrived(queue, len(later), min(later))

    def _arrived(self, queue: str, count: int, due_ms: int | None = None) -> None:
        """Wake whoever waits for jobs that have become claimable, here or elsewhere."""
        parked = self._parked.get(queue)
        left = count if parked is None else parked.arrived(count, due_ms)
        if left > 0 and self.tell_others is not None:
            self.tell_others(queue, due_ms)

    def heard(self, queue: str, due_ms: int | None) -> None:
        """Take note of jobs that another server made claimable, at once or when they fall due."""
        parked = self._parked.get(queue)
        if parked is not None:
            parked.arrived(1, due_ms)

    async def import_jobs(self, queue: str, jobs: Sequence[JobRecord]) -> list[str]:
        """Store jobs with their past; see ``Backend.import_jobs``."""
        descriptors = await self._doubting(queue, self._backend.import_jobs(queue, jobs))
        self._arrived(queue, len(jobs))
        return descriptors

    async def ack(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        """Settle jobs; see ``Backend.ack_dequeued_jobs``."""
        settled = await self._timed("ack", queue, self._backend.ack_dequeued_jobs(queue, succeeded, failed))
        if failed and settled.changed:
            for ack in failed:
                self._arrived(queue, 1, self._now_ms() + ack.retry_delay_ms)
        self._let_others_run(queue, settled.changed)
        return settled

    async def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        """Renew, change or give back claims; see ``Backend.checkpoint_jobs``."""
        settled = await self._timed("checkpoint", queue, self._backend.checkpoint_jobs(queue, checkpoints))
        if settled.due_ms is not None:
            self._arrived(queue, settled.changed, settled.due_ms)
            self._let_others_run(queue, settled.changed)
        return settled

    def _let_others_run(self, queue: str, ended: int) -> None:
        """Where a limit of running jobs holds others back, as many of these may be claimed as have ended."""
        if ended and self._limits.max_running(queue) is not None:
            self._arrived(queue, ended)

    async def release(self, queue: str, source: str) -> int:
        """Give back all that a source holds; see ``Backend.release_claims``."""
        released = await self._doubting(queue, self._backend.release_claims(queue, source))
        self._arrived(queue, released)
        return released

    async def retry_failed(self, queue: str, priority: int, attempts: int, run_after_ms: int | None, limit: int) -> int:
        """Make failed jobs claimable again; see ``Backend.retry_failed_jobs``."""
        retrying = self._backend.retry_failed_jobs(queue, priority, attempts, run_after_ms, limit)
        moved = await self._doubting(queue, retrying)
        self._arrived(queue, moved, run_after_ms)
        return moved

    async def retry_these(
        self, queue: str, jobs: Sequence[JobDescriptor], attempts: int, run_after_ms: int | None
    ) -> int:
        """Make some failed jobs claimable again; see ``Backend.retry_these_jobs``."""
        moved = await self._doubting(queue, self._backend.retry_these_jobs(queue, jobs, attempts, run_after_ms))
        self._arrived(queue, moved, run_after_ms)
        return moved

    async def reap(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        """End expired claims; see ``Backend.reap_expired``."""
        expired = await self._backend.reap_expired(limit, server_age_ms=server_age_ms, quiet_ms=quiet_ms)
        for queue, retried, failed in expired:
            self._arrived(queue, retried)
            self._let_others_run(queue, failed)
        return expired

    async def delete_queue(self, queue: str) -> None:
        """Remove a queue; dequeues that wait for it learn that it is gone."""
        await self._backend.delete_queue(queue)
        parked = self._parked.pop(queue, None)
        if parked is not None:
            parked.wake_all()

    def look_again(self) -> None:
        """Let waiting dequeues look again: more may be allowed now, or have arrived unheard."""
        for parked in self._parked.values():
            parked.wake_all()

    def end_waits(self) -> None:
        """Answer all waiting dequeues, and let none wait any more: the server stops."""
        self._is_closing = True
        for parked in self._parked.values():
            parked.end_all()
