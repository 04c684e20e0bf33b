"""Broker between the service and the store: every call that claims jobs, or makes them claimable, goes through it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from pinlater.errors import DequeueRateLimited, NoHealthyShards, QueueNotFound, ServiceError
from pinlater.model.attempts import DequeuedJob, StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import NewJob
from pinlater.server.backends.job_notifications import JobLocation, later_ms, locations_of
from pinlater.server.backends.poll_of_all import PollAll, PollNews, digest_of_shards
from pinlater.server.backends.records import Cancelled, Expired, Once, Settled
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.backends.store import Store
from pinlater.server.backends.unavailable import ChangeRefused
from pinlater.server.broker.cancellations import Cancellations
from pinlater.server.broker.claimable import makes_claimable
from pinlater.server.broker.dequeue import DequeueHandler, DequeueRequest, DequeueResult
from pinlater.server.broker.endings import Endings
from pinlater.server.broker.parking import Caller
from pinlater.server.broker.peers import OffersJobs, PeerNotifier
from pinlater.server.broker.queue_states import QueueStates
from pinlater.server.broker.unanswered_claims import UnansweredClaims
from pinlater.server.limits.rate_limits import RateLimits

_T = TypeVar("_T")


MIN_KNOWN_EMPTY_SECONDS = 30.0
"""How long an empty queue counts as empty, at least, so that a dequeue from thousands of queues asks for each once."""


class Broker:
    """Hands out jobs, and parks dequeues that may wait, so that they need not poll the store.

    Args:
        backend: the store.
        limits: rate limits of queues.
        observe: receives the seconds that each enqueue, dequeue, ack and checkpoint took in the store.
        poll_all: polls all queues of the store; None: it cannot.

    Attributes:
        backend: the store.
        notifiers: notify other processes and servers; empty if there are none.
        offers: offers jobs to one other server after another; None: the others are notified of all jobs, and wake
            dequeues by themselves.
        cancellations: running jobs that were asked to stop.
        endings: calls that wait until jobs have finished.
    """

    def __init__(
        self,
        backend: ServerStore,
        limits: RateLimits,
        observe: Callable[[str, float], None] = lambda _, __: None,
        poll_all: PollAll | None = None,
    ) -> None:
        self.notifiers: list[PeerNotifier] = []
        self.offers: OffersJobs | None = None
        self.backend: ServerStore = backend
        self._is_serial = backend.capabilities.is_serial
        self._limits = limits
        self._now_ms = backend.now_ms
        self._observe = observe
        # Each empty poll extends this time, and one or two polls may fail before it ends.
        known_empty_seconds = max(MIN_KNOWN_EMPTY_SECONDS, 2 * backend.capabilities.poll_intervals.longest)
        self._queues = QueueStates(backend.now_ms, known_empty_seconds, self._on_due)
        self._dequeues = DequeueHandler(
            backend,
            limits,
            self._queues,
            observe,
            poll_all=poll_all,
            offer_rest=self._offer_rest,
            pass_on=self._notify,
        )
        self._unanswered_claims = UnansweredClaims(self.checkpoint)
        self.cancellations = Cancellations(backend.now_ms)
        self.endings = Endings(is_lonely=self._is_serial)

    @property
    def parked_dequeues(self) -> int:
        """The number of parked dequeues; one that waits for several queues counts once."""
        return self._dequeues.waiting

    async def _carry_out(self, queue: str, call: Awaitable[_T], operation: str = "") -> _T:
        """Await a call; with ``operation``, which is one of workers, observe under this name how long it took.

        Raises:
            NoHealthyShards: the store takes no changes at present; a worker repeats its call until it does.
        """
        started = time.perf_counter()
        try:
            return await call
        except BaseException as error:
            self._record_failure(queue, error)
            if operation and isinstance(error, ChangeRefused):
                raise NoHealthyShards(str(error)) from error
            raise
        finally:
            if operation:
                self._observe(operation, time.perf_counter() - started)

    def _record_failure(self, queue: str, error: BaseException) -> None:
        """Record that a call failed; it may have added jobs all the same, so the queue is not known to be empty.

        If other shards have done their parts, their jobs are announced as those of a call that succeeds, but without
        their number.
        """
        state = self._queues.get(queue)
        if state is not None and not isinstance(error, QueueNotFound):
            state.mark_uncertain()
        if isinstance(error, ServiceError) and error.is_partial:
            self._wake_waiters(queue, None)

    async def give_back(self, found: DequeueResult) -> None:
        """Give back jobs whose answer was not delivered; no attempt is spent."""
        if found.claim is not None:
            await self._unanswered_claims.give_back(found.jobs, found.claim.descriptor)

    # Claiming jobs

    async def dequeue(self, order: DequeueRequest, caller: Caller) -> DequeueResult:
        """Claim jobs, waiting for them if allowed; see ``DequeueHandler.dequeue``."""
        return await self._dequeues.dequeue(order, caller)

    async def peek(self, queue: str, limit: int, max_bytes: int) -> list[DequeuedJob]:
        """Return the jobs that a dequeue would claim, without claiming them.

        Raises:
            DequeueRateLimited: the queue is paused.
        """
        if self._limits.is_paused(queue):
            raise DequeueRateLimited(f"queue {queue!r} is paused")
        return await self.backend.peek_jobs(queue, limit, max_bytes=max_bytes)

    # Making jobs claimable

    async def enqueue(self, queue: str, jobs: Sequence[NewJob], *, once: Once = None) -> list[str]:
        """Store jobs, and wake dequeues that wait for them; see ``Store.enqueue_jobs``."""
        if self._is_serial:  # parked dequeues woken before the jobs are stored claim them in the same transaction
            self._announce_jobs(queue, jobs, ())
        started = time.perf_counter()
        try:
            descriptors = await self.backend.enqueue_jobs(queue, jobs, once=once)
        except BaseException as error:
            self._record_failure(queue, error)
            raise
        finally:
            self._observe("enqueue", time.perf_counter() - started)
        if not self._is_serial:
            self._announce_jobs(queue, jobs, descriptors)
        return descriptors

    def _announce_jobs(self, queue: str, jobs: Sequence[NewJob], descriptors: Sequence[str]) -> None:
        if not self.notifiers and self._queues.get(queue) is None:
            return
        locations, delayed = partial(locations_of, descriptors), [job for job in jobs if job.run_after_ms is not None]
        now = self._now_ms() if delayed else 0
        later = [due_ms for job in delayed if (due_ms := later_ms(job, now)) is not None]
        if len(jobs) > len(later):
            self._wake_waiters(queue, len(jobs) - len(later), locations=locations)
        if later:
            self._wake_waiters(queue, len(later), min(later), locations=locations)

    def _wake_waiters(
        self,
        queue: str,
        count: int | None,
        due_ms: int | None = None,
        *,
        locations: Callable[[], Collection[JobLocation]] = tuple,
    ) -> None:
        """Wake dequeues for ``count`` newly claimable jobs (None: one or more), here or in other processes."""
        state, known = self._queues.get(queue), 1 if count is None else count
        left = known if state is None else state.jobs_arrived(known, due_ms, or_more=count is None)
        if left > 0:
            self._notify(queue, due_ms, locations, None if count is None else left)

    def _notify(
        self,
        queue: str,
        due_ms: int | None = None,
        locations: Callable[[], Collection[JobLocation]] = tuple,
        count: int | None = None,
    ) -> None:
        """Notify other processes and servers of jobs that no dequeue waits for here; see ``PeerNotifier``."""
        for notifier in self.notifiers:
            notifier.notify(queue, due_ms, locations, count)

    def _offer_rest(self, queue: str, are_new: bool) -> None:
        if self.offers is not None:
            self.offers.offer_rest(queue, are_new=are_new)

    def _on_due(self, queue: str, due_ms: int) -> None:
        """Wake a dequeue for a job that has fallen due, here or at another server that knows of it."""
        state = self._queues.get(queue)
        if state is None:  # the queue was deleted while a claim was under way, which has set the timer
            return

        def wake() -> None:
            if state.jobs_arrived(1, or_more=True) and self.offers is not None:
                self.offers.offer(queue, None, ())  # other processes of this server have timers, too

        if self.offers is None:
            wake()
        else:
            self.offers.fallen_due(queue, due_ms, wake)

    def take_jobs(self, queue: str, count: int | None, locations: Collection[JobLocation]) -> int:
        """Wake dequeues for jobs that another server offers; none if it cannot claim them. See ``PeerReceiver``."""
        if count != 0:
            self.backend.jobs_arrived(queue, None, locations)
        if locations and self._healthy_shards().isdisjoint(location.shard for location in locations):
            return 0
        state, known = self._queues.get(queue), count or 1
        return 0 if state is None else known - state.jobs_arrived(known, or_more=not count)

    def sees_to(self, queue: str, due_ms: int) -> bool:
        """Return whether a dequeue here was or will be woken for a job due then, so that other servers wake none.

        A server that does not reach all shards does not promise that: the job may be on one of these.
        """
        state = self._queues.get(queue)
        return state is not None and not self.backend.unhealthy_shards and state.sees_to(due_ms)

    def on_remote_jobs(self, queue: str, due_ms: int | None, locations: Collection[JobLocation] = ()) -> None:
        """Wake a dequeue for a job that another process made claimable, now or when it is due; see ``OnJobs``."""
        self.backend.jobs_arrived(queue, due_ms, locations)
        state = self._queues.get(queue)
        if state is not None:
            state.jobs_arrived(1, due_ms, or_more=True)

    def on_claimable(self, queue: str, count: int | None, locations: Collection[JobLocation]) -> None:
        """Wake dequeues for jobs that the store has made claimable by itself; see ``OnClaimable``."""
        self.backend.jobs_arrived(queue, None, locations)
        self._wake_waiters(queue, count, locations=lambda: locations)

    async def poll_all(self) -> None:
        """Poll all queues for all servers, if the store can do that."""
        poll = await self._dequeues.poller.poll_all()
        if poll is None:
            return
        now_ms, pauses = self._now_ms(), self.backend.capabilities.poll_intervals
        for notifier in self.notifiers:
            notifier.notify_polled(poll, now_ms)
        first_ms, last_ms = now_ms - pauses.longest * 2000, now_ms - pauses.leeway * 1000
        for queue, due_ms in poll.first_due_ms.items():
            state = self._queues.get(queue)
            if first_ms <= due_ms <= last_ms and not (state is not None and state.has_waiters):
                self._offer_rest(queue, are_new=False)  # nobody took it when it fell due, which was not long ago

    def on_poll(self, news: PollNews) -> None:
        """Skip polls of queues that another server or process has just polled."""
        if news.shards == digest_of_shards(self._healthy_shards()):
            self._dequeues.poller.hear(news)

    def _healthy_shards(self) -> set[str]:
        return {state.name for state in self.backend.shard_states() if not state.unhealthy_in}

    import_jobs = makes_claimable(Store.import_jobs, len)
    release = makes_claimable(Store.release_claims, int)
    retry_failed = makes_claimable(Store.retry_failed_jobs, int)
    retry_these = makes_claimable(Store.retry_these_jobs, int)
    schedule = makes_claimable(Store.schedule_jobs, int)
    delete = makes_claimable(Store.delete_jobs, int)  # by its key, a job may hold up others
    delete_these = makes_claimable(Store.delete_these_jobs, int)

    async def make_claimable(
        self, queue: str, change: Coroutine[Any, Any, _T], count: Callable[[_T], int], due_ms: int | None
    ) -> _T:
        """Carry out a change in the store, and wake dequeues for the ``count`` jobs that it made claimable."""
        result = await self._carry_out(queue, change)
        self._wake_waiters(queue, count(result), due_ms)
        self.endings.record_some(queue)
        return result

    async def ack(self, queue: str, succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]) -> Settled:
        """Acknowledge jobs as succeeded or failed; see ``Store.ack_dequeued_jobs``."""
        settled = await self._carry_out(queue, self.backend.ack_dequeued_jobs(queue, succeeded, failed), "ack")
        if settled.changed and settled.failed < len(failed):
            for ack in failed:
                self._wake_waiters(queue, 1, self._now_ms() + ack.retry_delay_ms)
        self._wake_for_keys(queue, settled)
        self._wake_running_limited(queue, settled.changed)
        self.endings.record(queue, (ack.job for acks in (succeeded, failed) for ack in acks))
        return settled

    async def cancel(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
        """Cancel jobs, and tell workers which running ones are to stop; see ``Store.cancel_jobs``."""
        cancelled = await self._carry_out(queue, self.backend.cancel_jobs(queue, jobs, status))
        self._wake_for_keys(queue, cancelled)
        self.endings.record(queue, cancelled.ended)
        if cancelled.asked:
            asked = [str(job) for job in cancelled.asked]
            self.cancellations.record(asked)
            for notifier in self.notifiers:
                notifier.notify_cancelled(asked)
        return cancelled

    async def checkpoint(self, queue: str, checkpoints: Sequence[StoredCheckpoint]) -> Settled:
        """Renew, change or release claims; see ``Store.checkpoint_jobs``."""
        settled = await self._carry_out(queue, self.backend.checkpoint_jobs(queue, checkpoints), "checkpoint")
        if settled.due_ms is not None:
            self._wake_waiters(queue, settled.changed, settled.due_ms)
            self._wake_running_limited(queue, settled.changed)
        self._wake_for_keys(queue, settled)
        # A job that was asked to stop ends when it is given back.
        self.endings.record(queue, (item.job for item in checkpoints if item.move_to_pending))
        return settled

    def _wake_for_keys(self, queue: str, settled: Settled | Cancelled) -> None:
        if settled.let_through:
            self._wake_waiters(queue, settled.let_through)

    def _wake_running_limited(self, queue: str, ended: int) -> None:
        """Wake a dequeue for each ended claim, if a limit of running jobs applies to the queue."""
        if ended and self._limits.max_running(queue) is not None:
            self._wake_waiters(queue, ended)

    def is_paused(self, queue: str) -> bool:
        """Return whether a queue is paused, by its stored settings or by the file of rate limits."""
        return self._limits.is_paused(queue)

    def is_limited(self, queue: str) -> bool:
        """Return whether a queue is paused or has a limit, by its stored settings or by the file of rate limits."""
        return self._limits.is_limited(queue)

    async def reap(
        self, limit: int, *, server_age_ms: int, quiet_ms: int, asked_at: float | None = None
    ) -> list[Expired]:
        """End expired claims; see ``Store.reap_expired``."""
        expired = await self.backend.reap_expired(
            limit, server_age_ms=server_age_ms, quiet_ms=quiet_ms, asked_at=asked_at
        )
        for queue, retried, failed in expired:
            self._wake_waiters(queue, retried + failed)  # one that has failed may let another of its key through
            self.endings.record_some(queue)
        return expired

    async def delete_queue(self, queue: str) -> None:
        """Delete a queue; dequeues that wait for it fail with ``QueueNotFound``."""
        await self.backend.delete_queue(queue)
        self.on_deleted(queue)

    def on_deleted(self, queue: str) -> None:
        """Let calls that wait for a queue, or jobs of it, find out that it was deleted."""
        self._queues.forget(queue)
        self.endings.record_some(queue)

    def on_cancelled(self, descriptors: Sequence[str]) -> None:
        """Tell workers which running jobs other processes or servers have asked to stop."""
        self.cancellations.record(descriptors)

    def on_gap(self) -> None:
        """Let all parked dequeues try again: notifications may have been lost."""
        self.backend.notifications_lost()
        self.wake_all()

    def wake_all(self, queues: Collection[str] | None = None) -> None:
        """Let all dequeues that are parked for these queues try again; None: for any queue."""
        for state in list(self._queues if queues is None else filter(None, map(self._queues.get, queues))):
            state.wake_all()

    def end_all_waits(self) -> None:
        """Answer all parked calls and park no more: the server is stopping."""
        self._dequeues.stop()
        self.cancellations.stop()
        self.endings.stop()
        for state in list(self._queues):
            state.end_all()
