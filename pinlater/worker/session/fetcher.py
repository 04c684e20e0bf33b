"""Fetches jobs: sends dequeues and keeps the batches that they return."""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from typing import Any

from pinlater.client.server_clock import ServerClock
from pinlater.errors import CallError, DequeueRateLimited, QueueNotFound, ServerError, ServerUnavailable, ServiceError
from pinlater.protocol.conversion.jobs import split_reply
from pinlater.protocol.internal_calls import with_acks
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.counters import RETURNED, CountEvent, ignore_event
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.claim_table.snapshot import Identity
from pinlater.worker.log_once import LogOnce
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.pace import SHORT_SECONDS, Pace
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.weighted_round_robin import WeightedRoundRobin

_AHEAD = 2
"""Batches to prefetch while one runs; with only one, the server would be idle meanwhile."""
_FIRST_BACKOFF_SECONDS = 0.1
_LONGEST_BACKOFF_SECONDS = 5.0
_LONGEST_STORE_BACKOFF_SECONDS = 2.0
"""Longest backoff after an error of the store: it may recover at any time, and jobs must not wait long after that."""

RELEASED_AGAIN_SECONDS = (1.0, 5.0)
"""The claims of a dequeue whose reply was lost are released again after these times: the server may still get the call,
or the store carry out what a server had sent before it died. By the last one, all such statements have been stopped."""

log = logging.getLogger(__name__)


class Fetcher:
    """Dequeues jobs: ahead while short ones run, otherwise when the process is idle.

    Attributes:
        pace: how many jobs to ask for.
        found_no_jobs: whether the last dequeue found no job.
        is_rate_limited: whether the last dequeue was refused since its queue is paused, or has reached its rate limit.
        lacks_queue: whether a dequeue was refused because a queue does not exist.
        has_backlog: whether the last dequeue got as many jobs as it asked for.

    Args:
        pipeline: sends the calls.
        ack_buffer: gives acks to piggyback, and takes releases.
        row: the process's row of the claim table, in which fetched jobs are recorded first of all.
        identity: whose name the dequeues carry; each dequeue has its own source.
        round_robin: says which queue to poll first.
        clock: updated with the server's time in each reply.
        count: called for jobs that are released because the reply with them was lost.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        ack_buffer: AckBuffer,
        row: ClaimRow,
        identity: Identity,
        *,
        round_robin: WeightedRoundRobin,
        clock: ServerClock,
        count: CountEvent = ignore_event,
    ) -> None:
        self.pace = Pace(identity.capacity)
        self.found_no_jobs = self.is_rate_limited = False
        self.lacks_queue = False
        self._pipeline = pipeline
        self._ack_buffer = ack_buffer
        self._row = row
        self._identity = identity
        self._calls = Calls(identity.source, is_plain=True)
        self._round_robin = round_robin
        self._clock = clock
        self._count = count
        self._batches: deque[DequeuedBatch] = deque()
        self._in_flight = self._jobs_in_flight = 0
        self._reserved_areas = 0
        self._lost: list[int] = []
        self._released_again: list[tuple[float, int]] = []  # a heap
        self._backoff_seconds = 0.0
        self._backoff_until = 0.0
        self._log_once = LogOnce(log, "the server gives out no jobs: %s; retrying")
        self.has_backlog = False

    @property
    def in_flight(self) -> int:
        """Number of dequeues without a reply."""
        return self._in_flight

    @property
    def retry_in_seconds(self) -> float:
        """Seconds until the next dequeue after a rejected one."""
        return max(self._backoff_until - time.monotonic(), 0.0)

    @property
    def waiting(self) -> int:
        """Number of fetched batches that were not started."""
        return len(self._batches)

    @property
    def oldest_ns(self) -> int:
        """When the oldest waiting batch was fetched; there must be one."""
        return self._batches[0].fetched_ns

    def next_batch(self) -> DequeuedBatch | None:
        """Pop the oldest waiting batch; None if there is none."""
        return self._batches.popleft() if self._batches else None

    # Dequeuing

    @property
    def fetches_ahead(self) -> bool:
        """Whether there seem to be more jobs, which are too short to wait for the server before each."""
        is_below = self.pace.is_below
        return self.has_backlog and (is_below(SHORT_SECONDS) or is_below(self._pipeline.round_trip_seconds))

    def prefetch(self, most_jobs: int | None = None) -> None:
        """Dequeue the next jobs before the current ones run, if jobs are short and there seem to be more.

        Such a dequeue is not parked: nobody would read its reply until the current jobs have run.

        Args:
            most_jobs: how many jobs may be run after the current ones; None: any number.
        """
        if not self.fetches_ahead or self.retry_in_seconds:
            return
        while self._in_flight + len(self._batches) < _AHEAD:
            limit = self.pace.limit if most_jobs is None else min(self.pace.limit, most_jobs - self._jobs_ahead)
            if limit <= 0 or not self.dequeue(0.0, limit):
                return

    @property
    def _jobs_ahead(self) -> int:
        return self._jobs_in_flight + sum(len(batch.unstarted) for batch in self._batches)

    def fitting(self, most_jobs: int) -> int:
        """Return how many of ``most_jobs`` jobs fit into the claim table; late acks give up their places for them."""
        areas = self._reserved_areas + self._areas_for(most_jobs)
        while self._row.free_areas < areas and self._ack_buffer.late.free_places():
            pass
        return min(most_jobs, (self._row.free_areas - self._reserved_areas) * self._row.batch_jobs)

    def _areas_for(self, jobs: int) -> int:
        return -(-jobs // self._row.batch_jobs)

    def dequeue(self, wait_seconds: float, most_jobs: int | None = None) -> bool:
        """Send a dequeue with piggybacked acks; return False if that is not possible now.

        Args:
            wait_seconds: how long the server may wait for a job.
            most_jobs: how many jobs to ask for; None: as many as ``pace`` says.
        """
        limit = self.pace.limit if most_jobs is None else most_jobs
        wait_seconds = min(wait_seconds, self._ack_buffer.late.wait_seconds)
        if self._released_again:
            wait_seconds = min(wait_seconds, max(self._released_again[0][0] - time.monotonic(), 0.0))
        if self._lost or self.fitting(limit) < limit:
            return False
        batches = self._areas_for(limit)
        acks, on_reply = self._ack_buffer.piggyback()
        if not self._pipeline.is_open:  # lost while other calls were sent
            on_reply(ServerUnavailable("the connection is lost"))
            return False
        number = self._row.start_dequeue()
        self._in_flight += 1
        self._jobs_in_flight += limit
        self._reserved_areas += batches
        sent = self._clock.sent()

        def received(reply: Any) -> None:
            self._in_flight -= 1
            self._jobs_in_flight -= limit
            self._reserved_areas -= batches
            on_reply(reply)
            if not isinstance(reply, Exception):
                self._clock.update(reply.serverTimestampMillis, sent)
            has_waited = time.monotonic() - sent >= wait_seconds > 0
            self._on_batch_reply(number, limit, reply, has_waited=has_waited)

        queue, *others = self._round_robin.next()
        calls = Calls(self._identity.source_of(number), is_plain=True)
        lease = self._pipeline.lease_seconds
        call = calls.dequeue_jobs(queue, limit, wait=wait_seconds, lease=lease, other_queues=others)
        self._pipeline.send(with_acks(call, acks), received)
        return True

    # Replies

    def _on_batch_reply(self, number: int, limit: int, reply: Any, *, has_waited: bool) -> None:
        self.found_no_jobs = self.is_rate_limited = False
        if isinstance(reply, CallError):
            self._lost.append(number)
            return
        batches: list[DequeuedBatch] = []
        if isinstance(reply, ServiceError):
            self._on_refused(reply, has_waited=has_waited)
        else:
            self._backoff_seconds = 0.0
            self._log_once.reset()
            batches = [self._store_batch(part) for part in split_reply(reply, self._row.batch_jobs)]
            self.found_no_jobs = not batches
            self.has_backlog = len(reply.jobs or ()) >= limit
        if not self._row.finish_dequeue(number):
            self._batches += batches
            return
        for batch in batches:
            self._ack_buffer.release(batch, batch.unstarted)

    def _store_batch(self, reply: Any) -> DequeuedBatch:
        area = self._row.acquire_area()
        assert area is not None  # dequeue() has reserved it
        batch = DequeuedBatch(reply, area)
        self._ack_buffer.release(batch, batch.surplus)
        return batch

    def _on_refused(self, error: ServiceError, *, has_waited: bool) -> None:
        self.is_rate_limited = isinstance(error, DequeueRateLimited)
        if self.is_rate_limited and has_waited:  # at the server, which hands out the next job as soon as it may
            self._backoff_seconds = 0.0
            return
        longest = _LONGEST_STORE_BACKOFF_SECONDS if isinstance(error, ServerError) else _LONGEST_BACKOFF_SECONDS
        self._backoff_seconds = min(max(2 * self._backoff_seconds, _FIRST_BACKOFF_SECONDS), longest)
        self._backoff_until = time.monotonic() + self._backoff_seconds
        self.lacks_queue = isinstance(error, QueueNotFound)
        if not self.is_rate_limited:
            self._log_once.report(error)

    # Releasing and creating

    def release_all(self) -> None:
        """Release every job that was fetched and not started."""
        while (batch := self.next_batch()) is not None:
            self._ack_buffer.release(batch, batch.unstarted)

    def create_queues(self) -> None:
        """Create the queues that are missing on the server.

        Raises:
            ServiceError, CallError: a call failed.
        """
        known = self._pipeline.call(self._calls.queue_names())
        for queue in self._identity.queues:
            if queue not in known:
                self._pipeline.call(self._calls.create_queue(queue))
                log.info("created queue %s", queue)
        self.lacks_queue = False

    def release_lost(self) -> None:
        """Release the claims of dequeues whose reply was lost; again later, since the store may still make some.

        Raises:
            ServiceError, CallError: a call failed.
        """
        while self._lost:
            number = self._lost[0]
            self._release_claims(number)
            self._row.finish_dequeue(number)
            for seconds in RELEASED_AGAIN_SECONDS:
                heapq.heappush(self._released_again, (time.monotonic() + seconds, number))
            self._lost.pop(0)
        while self._released_again and self._released_again[0][0] <= time.monotonic():
            self._release_claims(self._released_again[0][1])
            heapq.heappop(self._released_again)

    def _release_claims(self, number: int) -> None:
        """Release the claims of one dequeue; acks go first, since that is a call for each queue."""
        self._ack_buffer.flush()
        for queue in self._identity.queues:
            source = self._identity.source_of(number)
            try:
                released = self._pipeline.call(self._calls.release_claims(queue, source))
            except QueueNotFound:  # its claims are gone with it; the next dequeue fails, and then it is created again
                continue
            if released:
                self._count(queue, RETURNED, released)

    @property
    def has_lost(self) -> bool:
        """Whether the reply of a dequeue was lost and its claims are not released yet."""
        return bool(self._lost)

    def end_wait(self) -> None:
        """End a parked dequeue: any further call on the connection makes the server answer it."""
        self._pipeline.send(self._calls.queue_names(), _ignore)


def _ignore(_: Any) -> None:
    """Ignore the reply."""
