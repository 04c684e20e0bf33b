"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id).

The dequeues of a queue are batched into transactions, one at a time: concurrent ones would only block each other. They
are answered after the commit. If its outcome is unknown, the dequeues fail and their jobs are released.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext

from pinlater.errors import UnknownError
from pinlater.server.backends.mysql.candidates import Candidate, CandidateSearch, Found
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import take_out
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.keys import QueueKey, let_next_through
from pinlater.server.backends.mysql.orphaned_claims import MysqlOrphanedClaims
from pinlater.server.backends.mysql.queries import one_row
from pinlater.server.backends.mysql.scan_cursor import ScanCursor
from pinlater.server.backends.mysql.shares import MysqlDequeueCall, Share, share_out, total_wanted
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Dequeued
from pinlater.server.backends.search import Queue
from pinlater.server.backends.store import queue_not_found
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

MAX_JOBS = 5000
"""A transaction claims at most this many jobs, or the limit of a single dequeue that wants more."""

ClaimBatch = CommitBatch[MysqlDequeueCall, Dequeued]


class Claimer:
    """Claims jobs of one queue.

    Args:
        database: the shard's database.
        queue: the queue to claim from.
        orphaned: releases jobs whose dequeue cannot be answered.
    """

    def __init__(self, database: Database, queue: Queue, orphaned: MysqlOrphanedClaims) -> None:
        self._database = database
        self._queue = queue
        self._orphaned = orphaned
        self._search = CandidateSearch(queue)

    @property
    def cursor(self) -> ScanCursor:
        """Where to start the scan for due jobs."""
        return self._search.cursor

    async def claim(self, batch: ClaimBatch) -> None:
        """Attempt the dequeues of a batch; if the outcome is unknown, they fail and their jobs are released."""
        shares = [Share(call) for call in batch.requests]
        try:
            async with self._database.transaction() as transaction:
                claims = _Claims(self._database, self._queue, transaction, shares)
                running = await self._count_running(transaction, batch.requests)
                found = await self._search.find(transaction, sum(call.allowed(running) for call in batch.requests))
                if found is None:
                    batch.fail(queue_not_found(self._queue.name))
                    return
                with batch.committing() if found.jobs else nullcontext():
                    await claims.make(self._search, found, running)
        except BaseException:
            self.cursor.invalidate()
            if batch.is_uncertain:
                self._release(shares)
            raise
        self.cursor.advance((job.prefix, job.run_after) for share in shares for job in share.jobs)
        batch.answer([self._fail(share) if share.is_torn else claims.result(share) for share in shares])

    def _release(self, shares: Sequence[Share]) -> None:
        for share in shares:
            if share.jobs:
                self._orphaned.add(self._queue, share.call.claim, [job.id for job in share.jobs])

    async def _count_running(self, transaction: MysqlTransaction, calls: Sequence[MysqlDequeueCall]) -> int:
        """Return how many jobs run, and block other claims until the transaction ends; 0 if no call has a limit."""
        if all(call.max_running is None for call in calls):
            return 0
        _, count = await transaction.run(
            transaction.bind("lock_claims", queue=self._queue.id),
            transaction.bind("running_jobs", queue=self._queue.id),
        )
        return int(count.rows[0][0])

    def _fail(self, share: Share) -> UnknownError:
        """Release a share of which another server has changed some jobs despite their locks. Return the error."""
        self._release([share])
        error = UnknownError(
            f"another server changed locked jobs of queue {self._queue.name}, so the claim was released; check that "
            "the database supports row locks and that nothing else writes to its tables"
        )
        log.error("shard %s: %s", self._database.shard, error)
        return error


class _Claims:
    """The claims of a transaction: of jobs that are due, and of jobs that these let through.

    Args:
        database: the shard's database.
        queue: the queue to claim from.
        transaction: makes the claims.
        shares: what each dequeue gets.
    """

    def __init__(
        self, database: Database, queue: Queue, transaction: MysqlTransaction, shares: Sequence[Share]
    ) -> None:
        self._database = database
        self._queue = queue
        self._transaction = transaction
        self._shares = shares
        self._bodies: dict[int, bytes] = {}
        self._dues: Sequence[int | None] | None = None  # when the next job of each priority falls due
        self._let_through: dict[int, int] = {}  # when each of them that is not claimed falls or fell due, by id

    async def make(self, search: CandidateSearch, found: Found, running: int) -> None:
        """Claim the found jobs and, while the dequeues want more, those that are let through; commit.

        Args:
            search: finds the jobs that are let through.
            found: the jobs that are due.
            running: how many jobs of the queue run.
        """
        while True:
            parts = share_out(found, self._shares, running)
            running += sum(map(len, parts))
            due = await self._claim(parts)
            if not due or not total_wanted(self._shares):
                break
            found = Found(await search.among(self._transaction, due), has_more=False)
        await self._transaction.commit()

    async def _claim(self, parts: Sequence[Sequence[Candidate]]) -> list[int]:
        """Claim jobs for each dequeue; return the ids of those that this lets through now.

        Without keys, it commits: nothing else is left to be done.
        """
        transaction, claimed = self._transaction, [job for part in parts for job in part]
        keys = {job.id: QueueKey(self._queue.id, job.key) for job in claimed if job.key}
        take_out(transaction, [job.id for job in claimed if job.is_failing])
        statements = self._statements(parts)
        if not keys:
            self._record(parts, await transaction.run_and_commit(*statements))
            return []
        self._database.keyed_queues.add(self._queue.id)
        wanted = total_wanted(self._shares)
        through = await let_next_through(transaction, keys, wanted, is_claim=True, before=statements, ended=())
        self._record(parts, through.results)
        for job in claimed:
            self._let_through.pop(job.id, None)
        self._let_through.update(through.run_after)
        return through.due(transaction.now)

    def _statements(self, parts: Sequence[Sequence[Candidate]]) -> list[bytes]:
        """Return the statements that claim jobs, read large bodies, and find out when the next job falls due."""
        statements = [
            self._claim_statement(share.call, part) for share, part in zip(self._shares, parts, strict=True) if part
        ]
        if large := _large(parts):
            statements.append(self._transaction.bind("job_bodies", ids=large))
        if self._wants_next_due():
            statements.append(self._next_due_query())
        return statements

    def _record(self, parts: Sequence[Sequence[Candidate]], results: Sequence[StatementResult]) -> None:
        """Record the results of ``_statements``."""
        left = iter(results)
        for share, part in zip(self._shares, parts, strict=True):
            share.is_torn |= bool(part) and next(left).matched < len(part)
        if _large(parts):
            self._bodies.update(next(left).rows)
        if self._wants_next_due():
            self._dues = next(left).rows[0]

    def _claim_statement(self, call: MysqlDequeueCall, jobs: Sequence[Candidate]) -> bytes:
        now = self._transaction.now
        return self._transaction.bind(
            "claim_jobs",
            ids=sorted(job.id for job in jobs),
            claim=call.claim,
            lease=call.lease_ms,
            expires=now + call.lease_ms,
            now=now,
        )

    def _wants_next_due(self) -> bool:
        """Return whether it is to be found out when the next job falls due: once is enough."""
        return self._dues is None and any(share.is_short for share in self._shares)

    def _next_due_query(self) -> bytes:
        bind, now = self._transaction.bind, self._transaction.now
        priorities = range(1, len(self._queue.prefixes) + 1)
        return one_row(bind("next_due", queue=self._queue.id, priority=at, now=now) for at in priorities)

    def result(self, share: Share) -> Dequeued:
        """Return the result of a dequeue."""
        dues = (*(self._dues or ()), *self._let_through.values())
        due = min((due_ms for due_ms in dues if due_ms is not None), default=None)
        has_more = share.has_more or (due is not None and due <= self._transaction.now)
        return Dequeued(
            [job.claimed(self._bodies) for job in share.jobs],
            due if share.is_short and not has_more else None,
            has_more and not share.is_held,
            share.is_held,
            bool(self._let_through),
        )


def _large(parts: Sequence[Sequence[Candidate]]) -> list[int]:
    return sorted(job.id for part in parts for job in part if job.body is None)
