"""Claims whose answer could not be given: their jobs are made pending again as soon as the database answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.search import Queue
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.retry_until_done import RetryQueue

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())


class LostClaims:
    """Gives back jobs that were claimed, or may have been, for a dequeue that could not be answered.

    Args:
        database: of the shard.
        on_commit: is called with the number of jobs that were given back.
        on_return: is called with a queue that has jobs again.
    """

    def __init__(
        self, database: Database, on_commit: Callable[[CommitStats], None], on_return: Callable[[Queue], None]
    ) -> None:
        self._database = database
        self._on_commit = on_commit
        self._on_return = on_return
        self._unfinished = RetryQueue()

    def add(self, queue: Queue, claim: bytes, ids: Sequence[int]) -> None:
        """Make those of the jobs pending again that the claim holds, no attempt spent."""
        self._unfinished.add(partial(self._give_back, queue, claim, sorted(ids)))

    async def close(self) -> None:
        """Stop; the leases of what was not given back end by themselves."""
        await self._unfinished.close()

    async def _give_back(self, queue: Queue, claim: bytes, ids: Sequence[int]) -> None:
        began = time.perf_counter()

        async def work(transaction: Transaction) -> int:
            # The transaction that claimed them may still be under way there; it has locked them, so this waits for it.
            await transaction.rows("hold_jobs", ids=ids)
            release = transaction.bind("release_jobs", ids=ids, queue=queue.id, claim=claim, now=transaction.now)
            return (await transaction.run_to_end(release))[0].matched

        released = await self._database.change(work, is_repeatable=True)
        if released:
            log.warning("queue %s: %d jobs were claimed for an answer that got lost; given back", queue.name, released)
            self._on_commit(CommitStats(1, time.perf_counter() - began, claims_undone=released))
        self._on_return(queue)
