"""The claims of all queues of a shard; those of one queue are made in one transaction at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.mysql.claim import MAX_JOBS, Claimer
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import BusyCommits, GroupCommit
from pinlater.server.backends.mysql.orphaned_claims import MysqlOrphanedClaims
from pinlater.server.backends.mysql.shares import MysqlDequeueCall
from pinlater.server.backends.records import CommitStats, Dequeued
from pinlater.server.backends.search import Queue


class _Claims(NamedTuple):
    """The claims of a queue, of its first priority levels."""

    claimer: Claimer
    commit: GroupCommit[MysqlDequeueCall, Dequeued]


class QueueClaims:
    """Claims jobs of any queue.

    Args:
        database: the shard's database.
        orphaned: releases jobs whose dequeue cannot be answered.
        busy: see ``GroupCommit``.
        on_commit: called after each transaction.
    """

    def __init__(
        self,
        database: Database,
        orphaned: MysqlOrphanedClaims,
        busy: BusyCommits,
        on_commit: Callable[[CommitStats], None],
    ) -> None:
        self._database = database
        self._orphaned = orphaned
        self._busy = busy
        self._on_commit = on_commit
        self._claims: dict[int, dict[int, _Claims]] = {}  # by queue id and number of priority levels to claim

    async def claim(self, at: Queue, call: MysqlDequeueCall) -> Dequeued:
        """Claim jobs for a dequeue; if it is cancelled, the jobs are released."""
        claiming = self._commit_of(at).submit(call, call.limit)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._release(at, call, done))
            raise

    def restart_scans(self, queue_id: int) -> None:
        """Make the next claims scan from the start, since jobs may have come before their cursors."""
        for claims in self._claims.get(queue_id, {}).values():
            claims.claimer.cursor.invalidate()

    def keep_only(self, queue_ids: frozenset[int]) -> None:
        """Drop the state of all other queues, which were deleted, unless a claim is under way."""
        for queue_id in self._claims.keys() - queue_ids:
            if all(claims.commit.is_idle for claims in self._claims[queue_id].values()):
                del self._claims[queue_id]

    def _release(self, at: Queue, call: MysqlDequeueCall, claimed: asyncio.Future[Dequeued]) -> None:
        """Release what a cancelled dequeue has claimed: IN_PROGRESS -> PENDING, no attempt spent."""
        if not claimed.cancelled() and claimed.exception() is None and claimed.result().jobs:
            ids = [JobDescriptor.parse(job.descriptor).local_id for job in claimed.result().jobs]
            self._orphaned.add(at, call.claim, ids)

    def _commit_of(self, queue: Queue) -> GroupCommit[MysqlDequeueCall, Dequeued]:
        of_queue, levels = self._claims.setdefault(queue.id, {}), len(queue.prefixes)
        claims = of_queue.get(levels)
        if claims is None:
            claimer = Claimer(self._database, queue, self._orphaned)
            commit = GroupCommit(
                self._database.shard,
                claimer.claim,
                busy=self._busy,
                max_weight=MAX_JOBS,
                on_commit=self._on_commit,
                is_repeatable=lambda _: False,
            )
            claims = of_queue[levels] = _Claims(claimer, commit)
        return claims.commit
