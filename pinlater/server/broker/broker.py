"""Between the service and a store: every call that makes jobs claimable, or claims them, passes here."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pinlater.errors import DequeueRateLimited, QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.records import (
    Ack,
    Checkpoint,
    ClaimedJob,
    Expired,
    IdempotencyKey,
    JobRecord,
    NewJob,
    Settled,
)
from pinlater.server.backends.store import Store
from pinlater.server.broker.dequeue import DequeueHandler, DequeueRequest, DequeueResult
from pinlater.server.broker.parking import Caller, Parking
from pinlater.server.broker.unanswered_claims import UnansweredClaims
from pinlater.server.limits.rate_limits import RateLimits

_T = TypeVar("_T")


SHORTEST_BELIEF_SECONDS = 30.0
"""A queue that was found empty is taken as empty for at least so long: a dequeue of thousands asks each just once."""


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
        backend: Store,
        limits: RateLimits,
        now_ms: Callable[[], int],
        observe: Callable[[str, float], None] = lambda _, __: None,
    ) -> None:
        self.tell_others: Callable[[str, int | None], None] | None = None
        self._backend = backend
        self._limits = limits
        self._now_ms = now_ms
        self._observe = observe
        # Each poll that finds nothing extends this time; one or two polls may fail before it is over.
        belief_seconds = max(SHORTEST_BELIEF_SECONDS, 2 * backend.capabilities.poll_intervals.longest)
        self._parking = Parking(now_ms, belief_seconds)
        self._dequeues = DequeueHandler(backend, limits, self._parking, now_ms, observe)
        self._unanswered_claims = UnansweredClaims(self.checkpoint)

    @property
    def parked_dequeues(self) -> int:
        """How many dequeues wait now; one that waits for several queues is one."""
        return self._dequeues.waiting

    async def _timed(self, operation: str, queue: str, call: Awaitable[_T]) -> _T:
        started = time.perf_counter()
        try:
            return await self._doubting(queue, call)
        finally:
            self._observe(operation, time.perf_counter() - started)

    async def _doubting(self, queue: str, call: Awaitable[_T]) -> _T:
        """Await a call; if it fails, no longer take the queue as empty: the call may have been carried out."""
        try:
            return await call
        except QueueNotFound:
            raise
        except BaseException:
            parked = self._parking.get(queue)
            if parked is not None:
                parked.doubt()
            raise

    async def give_back(self, found: DequeueResult) -> None:
        """Return what was claimed for an answer that nobody gets, no attempt spent."""
        if found.claim is not None:
            await self._unanswered_claims.give_back(found.jobs, found.claim.descriptor)

    # Handing out

    async def dequeue(self, order: DequeueRequest, caller: Caller) -> DequeueResult:
        """Return jobs; see ``DequeueHandler.dequeue``."""
        return await self._dequeues.dequeue(order, caller)

    async def peek(self, queue: str, limit: int, max_bytes: int) -> list[ClaimedJob]:
        """Return what a dequeue would hand out.

        Raises:
            DequeueRateLimited: the queue is paused.
        """
        if self._limits.is_paused(queue):
            raise DequeueRateLimited(f"queue {queue!r} is paused")
        return await self._backend.peek_jobs(queue, limit, max_bytes=max_bytes)

    # Making jobs claimable

    async def enqueue(self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None) -> list[str]:
        """Store jobs and hand them to whoever waits for them; see ``Store.enqueue_jobs``."""
        storing = self._timed("enqueue", queue, self._backend.enqueue_jobs(queue, jobs, once=once))
        if self._backend.capabilities.is_serial:
            # Woken before the jobs are stored, the waiting dequeues claim in the same transaction.
            self._announce(queue, jobs)
            return await storing
        descriptors = await storing
        self._announce(queue, jobs)
        return descriptors

    def _announce(self, queue: str, jobs: Sequence[NewJob]) -> None:
        if self.tell_others is None and self._parking.get(queue) is None:
            return
        now = self._now_ms()
        later = [job.run_after_ms for job in jobs if job.run_after_ms is not None and job.run_after_ms > now]
        if len(jobs) > len(later):
            self._arrived(queue, len(jobs) - len(later))
        if later:
            self._arrived(queue, len(later), min(later))

    def _arrived(self, queue: str, count: int, due_ms: int | None = None) -> None:
        """Wake whoever waits for jobs that have become claimable, here or elsewhere."""
        parked = self._parking.get(queue)
        left = count if parked is None else parked.arrived(count, due_ms)
        if left > 0 and self.tell_others is not None:
            self.tell_others(queue, due_ms)

    def heard(self, queue: str, due_ms: int | None) -> None:
        """Take note of jobs that another server made claimable, at once or when they fall due."""
        parked = self._parking.get(queue)
        if parked is not None:
            parked.arrived(1, due_ms)

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        """Store jobs with their past; see ``Store.import_jobs``."""
        descriptors = await self._doubting(queue, self._backend.import_jobs(queue, jobs, once=once))
        self._arrived(queue, len(jobs))
        return descriptors

    async def ack(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        """Settle jobs; see ``Store.ack_dequeued_jobs``."""
        settled = await self._timed("ack", queue, self._backend.ack_dequeued_jobs(queue, succeeded, failed))
        if failed and settled.changed:
            for ack in failed:
                self._arrived(queue, 1, self._now_ms() + ack.retry_delay_ms)
        self._let_others_run(queue, settled.changed)
        return settled

    async def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        """Renew, change or give back claims; see ``Store.checkpoint_jobs``."""
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
        """Give back all that a source holds; see ``Store.release_claims``."""
        released = await self._doubting(queue, self._backend.release_claims(queue, source))
        self._arrived(queue, released)
        return released

    async def retry_failed(
        self,
        queue: str,
        priority: int,
        attempts: int,
        run_after_ms: int | None,
        limit: int,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        """Make failed jobs claimable again; see ``Store.retry_failed_jobs``."""
        retrying = self._backend.retry_failed_jobs(queue, priority, attempts, run_after_ms, limit, once=once)
        moved = await self._doubting(queue, retrying)
        self._arrived(queue, moved, run_after_ms)
        return moved

    async def retry_these(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        """Make some failed jobs claimable again; see ``Store.retry_these_jobs``."""
        retrying = self._backend.retry_these_jobs(queue, jobs, attempts, run_after_ms, once=once)
        moved = await self._doubting(queue, retrying)
        self._arrived(queue, moved, run_after_ms)
        return moved

    async def run_now(self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None) -> int:
        """Make jobs claimable before they are due; see ``Store.run_jobs_now``."""
        moved = await self._doubting(queue, self._backend.run_jobs_now(queue, jobs, once=once))
        self._arrived(queue, moved)
        return moved

    def is_paused(self, queue: str) -> bool:
        """Whether nothing of a queue is handed out, by the store's settings or the file's."""
        return self._limits.is_paused(queue)

    async def reap(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        """End expired claims; see ``Store.reap_expired``."""
        expired = await self._backend.reap_expired(limit, server_age_ms=server_age_ms, quiet_ms=quiet_ms)
        for queue, retried, failed in expired:
            self._arrived(queue, retried)
            self._let_others_run(queue, failed)
        return expired

    async def delete_queue(self, queue: str) -> None:
        """Remove a queue; dequeues that wait for it learn that it is gone."""
        await self._backend.delete_queue(queue)
        self._parking.forget(queue)

    def look_again(self) -> None:
        """Let waiting dequeues look again: more may be allowed now, or have arrived unheard."""
        for parked in list(self._parking):
            parked.wake_all()

    def end_waits(self) -> None:
        """Answer all waiting dequeues, and let none wait any more: the server stops."""
        self._dequeues.stop()
        for parked in list(self._parking):
            parked.end_all()
