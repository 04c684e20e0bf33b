"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id).

The dequeues of a queue are batched into transactions, one at a time: concurrent ones would only block each other. They
are answered after the commit. If its outcome is unknown, the dequeues fail and their jobs are released.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from pinlater.errors import UnknownError
from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import take_out
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.keys import QueueKey, let_next_through
from pinlater.server.backends.mysql.orphaned_claims import MysqlOrphanedClaims
from pinlater.server.backends.mysql.queries import one_row
from pinlater.server.backends.mysql.scan_cursor import FROM_START, ScanCursor
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Dequeued
from pinlater.server.backends.search import Queue
from pinlater.server.backends.store import queue_not_found
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_BEGIN = -(2**63)
"""Smallest run_after."""

SMALL_BODY_BYTES = 2000
"""Bodies up to this size are read with the candidates, even though they may not fit into the answer."""

MAX_JOBS = 5000
"""A transaction claims at most this many jobs, or the limit of a single dequeue that wants more."""


class MysqlDequeueCall(NamedTuple):
    """One dequeue."""

    limit: int
    max_bytes: int
    claim: bytes
    lease_ms: int
    want_next_due: bool
    max_running: int | None

    def allowed(self, running: int) -> int:
        """Return how many jobs it may claim while ``running`` jobs run."""
        return self.limit if self.max_running is None else max(min(self.limit, self.max_running - running), 0)


class Candidate(NamedTuple):
    """A job that may be claimed.

    Attributes:
        prefix: descriptor up to the id.
        size: size of the body, in bytes.
        body: the body; None: not read, as it is larger than ``SMALL_BODY_BYTES``.
        key: the key it shares with other jobs; None: it has none.
        is_failing: whether it is in a failure group, so its last attempt failed.
    """

    prefix: str
    id: int
    size: int
    allowed: int
    remaining: int
    created_at: int
    run_after: int
    body: bytes | None
    key: bytes | None
    is_failing: int

    def claimed(self, large_bodies: Mapping[int, bytes]) -> DequeuedJob:
        """Return the claimed job, given the bodies that were read later, by job id."""
        descriptor, body = f"{self.prefix}{self.id}", self.body
        if body is None:
            body = large_bodies[self.id]
        return DequeuedJob(descriptor, body, self.allowed, self.remaining, self.created_at, self.run_after)


class Found(NamedTuple):
    """Jobs that may be claimed.

    Attributes:
        jobs: the jobs, in claim order.
        has_more: whether more are due, or may be.
    """

    jobs: list[Candidate]
    has_more: bool


class Share(NamedTuple):
    """The jobs for one dequeue.

    Attributes:
        jobs: the jobs to claim.
        has_more: whether the dequeue is full, and more jobs may be due than all shares have.
        is_held: whether more jobs may be due, but the limit of running jobs is reached.
    """

    jobs: Sequence[Candidate]
    has_more: bool
    is_held: bool


ClaimBatch = CommitBatch[MysqlDequeueCall, Dequeued]


class Claimer:
    """Claims jobs of one queue.

    Attributes:
        cursor: where to start the scan for due jobs.

    Args:
        database: the shard's database.
        queue: the queue to claim from.
        orphaned: releases jobs whose dequeue cannot be answered.
    """

    def __init__(self, database: Database, queue: Queue, orphaned: MysqlOrphanedClaims) -> None:
        self._database = database
        self._queue = queue
        self._orphaned = orphaned
        self.cursor = ScanCursor()

    async def claim(self, batch: ClaimBatch) -> None:
        """Attempt the dequeues of a batch; if the outcome is unknown, they fail and their jobs are released."""
        shares: Sequence[Share] = ()
        try:
            async with self._database.transaction() as transaction:
                running = await self._count_running(transaction, batch.requests)
                found = await self._find(transaction, sum(call.allowed(running) for call in batch.requests))
                if found is None:
                    batch.fail(queue_not_found(self._queue.name))
                    return
                shares = share_out(found, batch.requests, running)
                with batch.committing() if found.jobs else nullcontext():
                    dequeued = await self._claim_shares(transaction, batch.requests, shares)
        except BaseException:
            self.cursor.invalidate()
            if batch.is_uncertain:
                self._release(batch.requests, shares)
            raise
        self.cursor.advance((job.prefix, job.run_after) for share in shares for job in share.jobs)
        batch.answer(dequeued)

    def _release(self, calls: Sequence[MysqlDequeueCall], shares: Sequence[Share]) -> None:
        for call, share in zip(calls, shares, strict=True):
            if share.jobs:
                self._orphaned.add(self._queue, call.claim, [job.id for job in share.jobs])

    async def _count_running(self, transaction: MysqlTransaction, calls: Sequence[MysqlDequeueCall]) -> int:
        """Return how many jobs run, and block other claims until the transaction ends; 0 if no call has a limit."""
        if all(call.max_running is None for call in calls):
            return 0
        _, count = await transaction.run(
            transaction.bind("lock_claims", queue=self._queue.id),
            transaction.bind("running_jobs", queue=self._queue.id),
        )
        return int(count.rows[0][0])

    async def _find(self, transaction: MysqlTransaction, wanted: int) -> Found | None:
        """Lock up to ``wanted`` due jobs and return them; None if the queue was deleted."""
        positions = self.cursor.positions
        if positions:
            found = await self._candidates(transaction, wanted, positions)
            if found is None or found.has_more:
                return found
            if len(found.jobs) >= wanted:
                return await self._look_behind(transaction, found)
        began = time.perf_counter()
        found = await self._candidates(transaction, wanted, FROM_START)
        self.cursor.restart(time.perf_counter() - began)
        return found

    async def _look_behind(self, transaction: MysqlTransaction, found: Found) -> Found:
        """Check whether more jobs are due than were found, including jobs before the cursor."""
        skipped = Counter(job.prefix for job in found.jobs)
        queries = [
            self._behind(transaction, priority, FROM_START, skipped[prefix])
            for priority, prefix in enumerate(self._queue.prefixes, 1)
        ]
        [first] = await transaction.run(one_row(queries))
        return found._replace(has_more=_is_any_due(first.rows[0], transaction.now))

    async def _candidates(
        self, transaction: MysqlTransaction, wanted: int, positions: Mapping[str, int]
    ) -> Found | None:
        priorities = range(1, len(self._queue.prefixes) + 1)
        exists_query = transaction.bind("queue_exists", queue=self._queue.id)
        queries = [self._behind(transaction, at, positions, 0 if at > 1 else wanted) for at in priorities]
        known, first_page = await transaction.run(
            one_row([exists_query, *queries]), self._claimable(transaction, 1, wanted, positions)
        )
        exists, behind, *firsts = known.rows[0]
        if exists is None:
            return None
        found = self._parse(1, first_page.rows)
        for priority in priorities[1:]:
            if len(found) >= wanted:
                break
            first = firsts.pop(0)
            if first is not None and first <= transaction.now:
                left = wanted - len(found)
                known, page = await transaction.run(
                    self._behind(transaction, priority, positions, left),
                    self._claimable(transaction, priority, left, positions),
                )
                behind = known.rows[0][0] if known.rows else None
                found += self._parse(priority, page.rows)
        return Found(found, len(found) >= wanted and _is_any_due([behind, *firsts], transaction.now))

    def _behind(
        self, transaction: MysqlTransaction, priority: int, positions: Mapping[str, int], skipped: int
    ) -> bytes:
        start = self._start(positions, priority)
        return transaction.bind("pending_behind", queue=self._queue.id, priority=priority, start=start, skipped=skipped)

    def _claimable(
        self, transaction: MysqlTransaction, priority: int, limit: int, positions: Mapping[str, int]
    ) -> bytes:
        return transaction.bind(
            "claimable_jobs",
            queue=self._queue.id,
            priority=priority,
            start=self._start(positions, priority),
            now=transaction.now,
            limit=limit,
            small=SMALL_BODY_BYTES,
        )

    def _start(self, positions: Mapping[str, int], priority: int) -> int:
        return positions.get(self._queue.prefixes[priority - 1], _BEGIN)

    def _parse(self, priority: int, rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
        prefix = self._queue.prefixes[priority - 1]
        return [Candidate(prefix, *row) for row in rows]

    async def _claim_shares(
        self, transaction: MysqlTransaction, calls: Sequence[MysqlDequeueCall], shares: Sequence[Share]
    ) -> list[Dequeued | Exception]:
        """Claim the jobs, read large bodies and, if a dequeue is not full, when the next job falls due; commit."""
        statements = [
            self._claim_statement(transaction, call, share)
            for call, share in zip(calls, shares, strict=True)
            if share.jobs
        ]
        large = sorted(job.id for share in shares for job in share.jobs if job.body is None)
        bodies_query = [transaction.bind("job_bodies", ids=large)] if large else []
        due_query = self._next_due_query(transaction, calls, shares)
        changes = [*statements, *bodies_query, *due_query]
        take_out(transaction, [job.id for share in shares for job in share.jobs if job.is_failing])
        keys = {job.id: QueueKey(self._queue.id, job.key) for share in shares for job in share.jobs if job.key}
        has_more, through_due = False, None
        if keys:
            self._database.keyed_queues.add(self._queue.id)
            is_full = any(share.has_more or share.is_held for share in shares)
            wanted = 0 if is_full else sum(call.limit for call in calls) - sum(len(share.jobs) for share in shares)
            through = await let_next_through(transaction, keys, wanted, is_claim=True, before=changes, ended=())
            results, through_due = through.results, through.first_due
            has_more = through_due is not None and through_due <= transaction.now
            await transaction.run_and_commit()
        else:
            results = await transaction.run_and_commit(*changes)
        claimed = (result.matched for result in results)
        bodies = dict(results[len(statements)].rows) if large else {}
        dues = results[-1].rows[0] if due_query else ()
        due = min((due_ms for due_ms in (*dues, through_due) if due_ms is not None), default=None)
        return [
            self._fail_claim(call, share)
            if share.jobs and next(claimed) < len(share.jobs)
            else Dequeued(
                [job.claimed(bodies) for job in share.jobs],
                due if _is_short(call, share) and not has_more else None,
                (share.has_more or has_more) and not share.is_held,
                share.is_held,
                through_due is not None,
            )
            for call, share in zip(calls, shares, strict=True)
        ]

    def _fail_claim(self, call: MysqlDequeueCall, share: Share) -> UnknownError:
        """Release a share of which another server has changed some jobs despite their locks. Return the error."""
        self._release([call], [share])
        error = UnknownError(
            f"another server changed locked jobs of queue {self._queue.name}, so the claim was released; check that "
            "the database supports row locks and that nothing else writes to its tables"
        )
        log.error("shard %s: %s", self._database.shard, error)
        return error

    @staticmethod
    def _claim_statement(transaction: MysqlTransaction, call: MysqlDequeueCall, share: Share) -> bytes:
        return transaction.bind(
            "claim_jobs",
            ids=sorted(job.id for job in share.jobs),
            claim=call.claim,
            lease=call.lease_ms,
            expires=transaction.now + call.lease_ms,
            now=transaction.now,
        )

    def _next_due_query(
        self, transaction: MysqlTransaction, calls: Sequence[MysqlDequeueCall], shares: Sequence[Share]
    ) -> list[bytes]:
        if not any(_is_short(call, share) for call, share in zip(calls, shares, strict=True)):
            return []
        priorities = range(1, len(self._queue.prefixes) + 1)
        queries = (
            transaction.bind("next_due", queue=self._queue.id, priority=at, now=transaction.now) for at in priorities
        )
        return [one_row(queries)]


def _is_short(call: MysqlDequeueCall, share: Share) -> bool:
    return call.want_next_due and not (share.has_more or share.is_held)


def _is_any_due(times: Iterable[int | None], now: int) -> bool:
    return any(due_ms is not None and due_ms <= now for due_ms in times)


def share_out(found: Found, calls: Sequence[MysqlDequeueCall], running: int = 0) -> list[Share]:
    """Divide the found jobs among the dequeues, in order, up to the limit and answer size of each."""
    parts: list[tuple[int, int, bool, bool]] = []
    sizes = [job.size for job in found.jobs]
    start = 0
    for call in calls:
        most = call.allowed(running + start)
        end, is_full = end_of_answer(sizes, start, most, call.max_bytes)
        parts.append((start, end, is_full, is_full and most < call.limit))
        start = end
    has_more = found.has_more or start < len(sizes)
    return [Share(found.jobs[start:end], is_full and has_more, is_held) for start, end, is_full, is_held in parts]
