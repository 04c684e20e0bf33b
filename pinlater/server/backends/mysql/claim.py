"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id).

One claimer at a time for each queue, for all dequeues that wait meanwhile: they would only be in each other's way.
Answered after the commit. If nobody knows whether that was done, the dequeues fail, and the jobs are given back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from pinlater.errors import UnknownError
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import Batch
from pinlater.server.backends.mysql.orphaned_claims import LostClaims
from pinlater.server.backends.mysql.queues import not_found
from pinlater.server.backends.mysql.scan_cursor import NONE, Floors
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES, ClaimedJob, Dequeued
from pinlater.server.backends.search import Queue
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

BEGIN = -(2**63)
"""No job can run before."""

MOST_JOBS = 5000
"""One round claims no more than this, or what one dequeue asks for."""


class ClaimRequest(NamedTuple):
    """One dequeue."""

    limit: int
    max_bytes: int
    claim: bytes
    lease_ms: int
    want_next_due: bool
    max_running: int | None

    def allowed(self, running: int) -> int:
        """Return how many jobs it may have while so many run."""
        return self.limit if self.max_running is None else max(min(self.limit, self.max_running - running), 0)


class Candidate(NamedTuple):
    """A job that may be handed out; ``prefix`` is the head of its descriptor."""

    prefix: str
    id: int
    size: int
    allowed: int
    remaining: int
    created_at: int
    run_after: int

    def with_body(self, body: bytes) -> ClaimedJob:
        """Return it as it is handed out."""
        descriptor = f"{self.prefix}{self.id}"
        return ClaimedJob(descriptor, body, self.allowed, self.remaining, self.created_at, self.run_after)


class Share(NamedTuple):
    """What one dequeue gets.

    Attributes:
        jobs: these.
        is_full: more may be there.
        is_held: more may be there, but as many run as may.
    """

    jobs: Sequence[Candidate]
    is_full: bool
    is_held: bool


ClaimBatch = Batch[ClaimRequest, Dequeued]


class Claimer:
    """Claims for one queue.

    Attributes:
        floors: where to begin looking.

    Args:
        database: of the shard.
        queue: its own.
        lost: takes what was claimed, or perhaps was, for nobody.
    """

    def __init__(self, database: Database, queue: Queue, lost: LostClaims) -> None:
        self._database = database
        self._queue = queue
        self._lost = lost
        self.floors = Floors()

    async def claim(self, batch: ClaimBatch) -> None:
        """Make one attempt at a batch; what nobody knows to be committed is given back, and answered by an error."""
        shares: Sequence[Share] = ()
        try:
            async with self._database.transaction() as transaction:
                running = await self._running(transaction, batch.requests)
                found = await self._find(transaction, sum(request.allowed(running) for request in batch.requests))
                if found is None:
                    batch.fail(not_found(self._queue.name))
                    return
                shares = share_out(found, batch.requests, running)
                with batch.committing() if found else nullcontext():
                    dequeued = await self._take(transaction, batch.requests, shares)
        except BaseException:
            self.floors.forget()
            if batch.is_uncertain:
                self._give_back(batch.requests, shares)
            raise
        self.floors.taken((job.prefix, job.run_after) for share in shares for job in share.jobs)
        batch.answer(dequeued)

    def _give_back(self, requests: Sequence[ClaimRequest], shares: Sequence[Share]) -> None:
        for request, share in zip(requests, shares, strict=True):
            if share.jobs:
                self._lost.add(self._queue, request.claim, [job.id for job in share.jobs])

    async def _running(self, transaction: Transaction, requests: Sequence[ClaimRequest]) -> int:
        """Return how many jobs run, if that matters; then nobody else claims until the transaction ends."""
        if all(request.max_running is None for request in requests):
            return 0
        _, count = await transaction.run(
            transaction.bind("lock_claims", queue=self._queue.id),
            transaction.bind("running_jobs", queue=self._queue.id),
        )
        return int(count.rows[0][0])

    async def _find(self, transaction: Transaction, wanted: int) -> list[Candidate] | None:
        """Lock what can be handed out, up to ``wanted`` jobs; None if the queue is gone."""
        floors = self.floors.now
        if floors:
            found = await self._candidates(transaction, wanted, floors)
            if found is None or len(found) >= wanted:
                return found
        began = time.perf_counter()
        found = await self._candidates(transaction, wanted, NONE)
        self.floors.looked_at_all(time.perf_counter() - began)
        return found

    async def _candidates(
        self, transaction: Transaction, wanted: int, floors: Mapping[str, int]
    ) -> list[Candidate] | None:
        priorities = range(1, len(self._queue.prefixes) + 1)
        is_there, *fronts, first = await transaction.run(
            transaction.bind("is_queue", queue=self._queue.id),
            *(
                transaction.bind(
                    "first_pending", queue=self._queue.id, priority=priority, floor=self._floor(floors, priority)
                )
                for priority in priorities[1:]
            ),
            self._claimable(transaction, 1, wanted, floors),
        )
        if not is_there.rows:
            return None
        found = self._read(1, first.rows)
        for priority, front in zip(priorities[1:], fronts, strict=True):
            if len(found) >= wanted:
                break
            if front.rows and front.rows[0][0] <= transaction.now:
                [more] = await transaction.run(self._claimable(transaction, priority, wanted - len(found), floors))
                found += self._read(priority, more.rows)
        return found

    def _claimable(self, transaction: Transaction, priority: int, limit: int, floors: Mapping[str, int]) -> bytes:
        return transaction.bind(
            "claimable_jobs",
            queue=self._queue.id,
            priority=priority,
            floor=self._floor(floors, priority),
            now=transaction.now,
            limit=limit,
        )

    def _floor(self, floors: Mapping[str, int], priority: int) -> int:
        return floors.get(self._queue.prefixes[priority - 1], BEGIN)

    def _read(self, priority: int, rows: Sequence[tuple[int, ...]]) -> list[Candidate]:
        prefix = self._queue.prefixes[priority - 1]
        return [Candidate(prefix, *row) for row in rows]

    async def _take(
        self, transaction: Transaction, requests: Sequence[ClaimRequest], shares: Sequence[Share]
    ) -> list[Dequeued | Exception]:
        """Mark the jobs, read their bodies and, for those that came short, when the next job falls due; commit."""
        statements = [
            self._marking(transaction, request, share)
            for request, share in zip(requests, shares, strict=True)
            if share.jobs
        ]
        ids = sorted(job.id for share in shares for job in share.jobs)
        reading = [transaction.bind("bodies_of_jobs", ids=ids)] if ids else []
        looking = self._looking(transaction, requests, shares)
        results = await transaction.run_to_end(*statements, *reading, *looking)
        marked = (result.matched for result in results)
        bodies = dict(results[len(statements)].rows) if ids else {}
        due = min((row[0] for result in results[len(statements) + len(reading) :] for row in result.rows), default=None)
        return [
            self._overtaken(request, share)
            if share.jobs and next(marked) < len(share.jobs)
            else Dequeued(
                [job.with_body(bodies[job.id]) for job in share.jobs],
                due if _is_short(request, share) else None,
                share.is_full and not share.is_held,
                share.is_held,
            )
            for request, share in zip(requests, shares, strict=True)
        ]

    def _overtaken(self, request: ClaimRequest, share: Share) -> UnknownError:
        """Give back what was marked of jobs that another server has, though they were locked: return the error."""
        self._give_back([request], [share])
        error = UnknownError(
            f"the database let another server change jobs of queue {self._queue.name} that were locked, so that their "
            "claim was given back; ask its administrator whether it locks rows"
        )
        log.error("shard %s: %s", self._database.shard, error)
        return error

    @staticmethod
    def _marking(transaction: Transaction, request: ClaimRequest, share: Share) -> bytes:
        return transaction.bind(
            "claim_jobs",
            ids=sorted(job.id for job in share.jobs),
            claim=request.claim,
            lease=request.lease_ms,
            expires=transaction.now + request.lease_ms,
            now=transaction.now,
        )

    def _looking(
        self, transaction: Transaction, requests: Sequence[ClaimRequest], shares: Sequence[Share]
    ) -> list[bytes]:
        if not any(_is_short(request, share) for request, share in zip(requests, shares, strict=True)):
            return []
        return [
            transaction.bind("next_due", queue=self._queue.id, priority=priority, now=transaction.now)
            for priority in range(1, len(self._queue.prefixes) + 1)
        ]


def _is_short(request: ClaimRequest, share: Share) -> bool:
    return request.want_next_due and not share.is_full


def share_out(found: Sequence[Candidate], requests: Sequence[ClaimRequest], running: int = 0) -> list[Share]:
    """Give each dequeue in turn what it asked for, as long as there is something and its answer has room."""
    shares: list[Share] = []
    at = 0
    for request in requests:
        start, room, most = at, request.max_bytes, request.allowed(running + at)
        while at < len(found) and at - start < most:
            room -= found[at].size + JOB_OVERHEAD_BYTES
            if room < 0 and at > start:
                break
            at += 1
        is_full = at < len(found) or at - start >= most
        shares.append(Share(found[start:at], is_full, is_full and most < request.limit))
    return shares
