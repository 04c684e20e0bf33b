"""Tokens of queues with a rate: a row for each, among the settings of the shard.

It is read, and then changed if it is still the same. So no server that stands still keeps the others from their tokens:
nobody holds a lock while it thinks.
"""

from __future__ import annotations

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.errors import Conflict
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.search import Queue
from pinlater.server.backends.token_bucket import Tokens, spend


class Buckets:
    """The buckets of a shard.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, queue: Queue, rate: float, wanted: int) -> Tokens:
        """Take up to so many tokens; below 0, give them back."""

        async def work(transaction: Transaction) -> Tokens:
            rows = await transaction.rows("bucket", queue=queue.id)
            if not rows:
                await transaction.run(transaction.bind("make_bucket", queue=queue.id))
            was = rows[0][0] if rows else 0
            tokens, moment = spend(was, transaction.now * 1000, rate, wanted)
            if tokens.taken or moment < was:
                change = transaction.bind("spend", queue=queue.id, spent_until=moment, was=was)
                [changed] = await transaction.run_to_end(change)
                if not changed.matched:
                    raise Conflict("another server took tokens at the same time")
            return tokens

        return await self._database.change(work, is_repeatable=True)
