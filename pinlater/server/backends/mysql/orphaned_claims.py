"""Orphaned claims, whose dequeues got no answer: their jobs are released as soon as the database answers again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from pinlater.model.plural import plural
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import put_in
from pinlater.server.backends.mysql.linked_changes import see_to_links
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.search import Queue
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.retry_until_done import RetryQueue

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())


class MysqlOrphanedClaims:
    """Releases jobs that were claimed, or may have been, for a dequeue that was not answered.

    Args:
        database: the shard's database.
        on_commit: receives how many jobs were released.
        on_release: called with the queue once its jobs are released.
    """

    def __init__(
        self, database: Database, on_commit: Callable[[CommitStats], None], on_release: Callable[[Queue], None]
    ) -> None:
        self._database = database
        self._on_commit = on_commit
        self._on_release = on_release
        self._retries = RetryQueue()

    def add(self, queue: Queue, claim: bytes, ids: Sequence[int]) -> None:
        """Release the jobs that the claim still holds: IN_PROGRESS -> PENDING, no attempt spent."""
        self._retries.add(partial(self._release, queue, claim, sorted(ids)))

    async def close(self) -> None:
        """Stop; jobs that were not released stay claimed until their leases expire."""
        await self._retries.close()

    async def _release(self, queue: Queue, claim: bytes, ids: Sequence[int]) -> None:
        began = time.perf_counter()

        async def change(transaction: MysqlTransaction) -> int:
            # The claiming transaction may still be open on the server, with these jobs locked; wait for its end.
            await transaction.rows("lock_jobs", ids=ids)
            release = transaction.bind("release_jobs", ids=ids, queue=queue.id, claim=claim, now=transaction.now)
            [done] = await transaction.run(release)
            put_in(transaction, ids)
            await see_to_links(transaction, ids)
            return done.matched

        released = await self._database.change(change, is_repeatable=True)
        if released:
            log.warning("queue %s: released %s whose dequeue was not answered", queue.name, plural(released))
            self._on_commit(CommitStats(1, time.perf_counter() - began, claims_undone=released))
        self._on_release(queue)
