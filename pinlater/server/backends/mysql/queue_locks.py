"""Locks of queues with an end: one dequeue of all servers counts and claims at a time.

A lock is a row among the settings of the shard: the moment at which it ends. No row lock of the database is held
meanwhile, and a server that dies keeps the others waiting until that moment and no longer.
"""

from __future__ import annotations

import secrets

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.search import Queue


class QueueLocks:
    """The locks of a shard's queues.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lock(self, queue: Queue, milliseconds: int) -> int | None:
        """Lock a queue for a while; return the token that unlocks it, None if somebody else has locked it."""

        async def work(transaction: Transaction) -> int | None:
            rows = await transaction.rows("queue_lock", queue=queue.id)
            if not rows:
                await transaction.run(transaction.bind("make_queue_lock", queue=queue.id))
            was, now = rows[0][0] if rows else 0, transaction.now * 1000
            # A lock that ends later than any can was made by a clock that was wrong.
            if now < was <= now + 2 * milliseconds * 1000:
                return None
            until = now + milliseconds * 1000 + secrets.randbelow(1000)  # of its own, also within a millisecond
            change = transaction.bind("change_queue_lock", queue=queue.id, until=until, was=was)
            [changed] = await transaction.run_to_end(change)
            return until if changed.matched else None

        return await self._database.change(work, is_repeatable=True)

    async def unlock(self, queue: Queue, token: int) -> None:
        """Unlock a queue, unless that lock has ended by itself."""
        change = self._database.queries.bind("change_queue_lock", queue=queue.id, until=0, was=token)
        await self._database.change(lambda transaction: transaction.run_to_end(change), is_repeatable=True)
