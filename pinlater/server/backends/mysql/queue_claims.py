"""The claims of all queues of a shard; those of one queue are made in one transaction at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection

from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.mysql.claim import MAX_JOBS, Claimer, MysqlDequeueCall
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import GroupCommit
from pinlater.server.backends.mysql.orphaned_claims import MysqlOrphanedClaims
from pinlater.server.backends.records import CommitStats, Dequeued
from pinlater.server.backends.search import Queue


class QueueClaims:
    """Claims jobs of any queue.

    Args:
        database: the shard's database.
        orphaned: releases jobs whose dequeue cannot be answered.
        on_commit: called after each transaction.
    """

    def __init__(
        self, database: Database, orphaned: MysqlOrphanedClaims, on_commit: Callable[[CommitStats], None]
    ) -> None:
        self._database = database
        self._orphaned = orphaned
        self._on_commit = on_commit
        # By queue id and number of priority levels to claim.
        self._claimers: defaultdict[int, dict[int, Claimer]] = defaultdict(dict)
        self._commits: dict[tuple[int, int], GroupCommit[MysqlDequeueCall, Dequeued]] = {}

    @property
    def group_commits(self) -> Collection[GroupCommit[MysqlDequeueCall, Dequeued]]:
        """The group commits used so far, one for each queue and number of priority levels."""
        return self._commits.values()

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
        for claimer in self._claimers.get(queue_id, {}).values():
            claimer.cursor.invalidate()

    def _release(self, at: Queue, call: MysqlDequeueCall, claimed: asyncio.Future[Dequeued]) -> None:
        """Release what a cancelled dequeue has claimed: IN_PROGRESS -> PENDING, no attempt spent."""
        if not claimed.cancelled() and claimed.exception() is None and claimed.result().jobs:
            ids = [JobDescriptor.parse(job.descriptor).local_id for job in claimed.result().jobs]
            self._orphaned.add(at, call.claim, ids)

    def _commit_of(self, queue: Queue) -> GroupCommit[MysqlDequeueCall, Dequeued]:
        levels = len(queue.prefixes)
        commit = self._commits.get((queue.id, levels))
        if commit is None:
            claimer = self._claimers[queue.id][levels] = Claimer(self._database, queue, self._orphaned)
            commit = self._commits[queue.id, levels] = GroupCommit(
                self._database.shard,
                claimer.claim,
                max_weight=MAX_JOBS,
                on_commit=self._on_commit,
                is_repeatable=lambda _: False,
            )
        return commit
