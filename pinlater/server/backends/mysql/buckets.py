"""Token buckets of rate-limited queues: one row each in the shard's settings table.

The row has the moment up to which the tokens are spent, in epoch microseconds. It is not locked but read, and then
updated only if it is unchanged. So a server that is suspended in between does not block the others.
"""

from __future__ import annotations

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.errors import TransactionConflict
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.search import Queue
from pinlater.server.backends.token_bucket import Tokens, spend


async def acquire_tokens(database: Database, queue: Queue, rate: float, wanted: int) -> Tokens:
    """Acquire up to ``wanted`` tokens; a negative number gives tokens back, and is not repeatable."""
    name = f"bucket of queue {queue.id}"

    async def change(transaction: MysqlTransaction) -> Tokens:
        was = await transaction.setting(name)
        tokens, spent_until = spend(was, transaction.now * 1000, rate, wanted)
        if tokens.taken or spent_until < was:
            update = transaction.bind("update_setting", name=name, value=spent_until, was=was)
            [updated] = await transaction.run_and_commit(update)
            if not updated.matched:
                raise TransactionConflict("another server changed the token bucket at the same time")
        return tokens

    return await database.change(change, is_repeatable=wanted >= 0)  # given back twice, they would exceed the rate
