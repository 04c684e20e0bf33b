"""Queue locks that expire, so that over all servers one dequeue at a time counts running jobs and claims.

A lock is a row in the shard's settings table: the moment at which it expires. It holds no row lock in the database, so
a server that dies delays the others until that moment, and no longer.
"""

from __future__ import annotations

import secrets

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.search import Queue


async def lock_queue(database: Database, queue: Queue, milliseconds: int) -> int | None:
    """Lock a queue for a while. Return the token that unlocks it; None if it is locked already."""
    tokens: set[int] = set()

    async def change(transaction: MysqlTransaction) -> int | None:
        rows = await transaction.rows("queue_lock", queue=queue.id)
        if not rows:
            await transaction.run(transaction.bind("create_queue_lock", queue=queue.id))
        was, now = rows[0][0] if rows else 0, transaction.now * 1000
        if was in tokens:  # an earlier attempt has locked it, and its answer was lost
            return was
        # A lock that expires later than any lock can was made with a wrong clock.
        if now < was <= now + 2 * milliseconds * 1000:
            return None
        until = now + milliseconds * 1000 + secrets.randbelow(1000)  # unique, even within a millisecond
        tokens.add(until)
        update = transaction.bind("update_queue_lock", queue=queue.id, until=until, was=was)
        [updated] = await transaction.run_and_commit(update)
        return until if updated.matched else None

    return await database.change(change, is_repeatable=True)


async def unlock_queue(database: Database, queue: Queue, token: int) -> None:
    """Unlock a queue, unless that lock has expired."""
    update = database.queries.bind("update_queue_lock", queue=queue.id, until=0, was=token)
    await database.change(lambda transaction: transaction.run_and_commit(update), is_repeatable=True)
