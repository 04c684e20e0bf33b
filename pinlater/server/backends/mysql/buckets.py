"""Tokens of queues with a rate: a row for each, among the settings of the shard."""

from __future__ import annotations

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.search import Queue
from pinlater.server.backends.tokens import Tokens, spend


class Buckets:
    """The buckets of a shard.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, queue: Queue, rate: float, wanted: int) -> Tokens:
        """Take up to so many tokens; below 0, give them back."""
        name = name_of(queue.id)

        async def work(transaction: Transaction) -> Tokens:
            rows = await transaction.rows("bucket", name=name)
            if not rows:
                _, found = await transaction.run(
                    transaction.bind("make_bucket", name=name), transaction.bind("bucket", name=name)
                )
                rows = list(found.rows)
            tokens, spent_until = spend(rows[0][0], transaction.now * 1000, rate, wanted)
            if tokens.taken:
                await transaction.run_to_end(transaction.bind("spend", name=name, spent_until=spent_until))
            return tokens

        return await self._database.change(work, is_repeatable=True)


def name_of(queue_id: int) -> str:
    """Return the name under which the bucket of a queue is kept."""
    return f"bucket of queue {queue_id}"
