"""Queue locks that expire, so that over all servers one dequeue at a time counts running jobs and claims.

A lock is a row in the shard's settings table: the moment at which it expires, in epoch microseconds. It holds no row
lock in the database, so a server that dies delays the others until that moment, and no longer.
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
        was, now = await transaction.setting(_name(queue)), transaction.now * 1000
        if was in tokens:  # an earlier attempt has locked it, and its answer was lost
            return was
        # A lock that expires later than any lock can was made with a wrong clock.
        if now < was <= now + 2 * milliseconds * 1000:
            return None
        until = now + milliseconds * 1000 + secrets.randbelow(1000)  # unique, even within a millisecond
        tokens.add(until)
        update = transaction.bind("update_setting", name=_name(queue), value=until, was=was)
        [updated] = await transaction.run_and_commit(update)
        return until if updated.matched else None

    return await database.change(change, is_repeatable=True)


async def unlock_queue(database: Database, queue: Queue, token: int) -> None:
    """Unlock a queue, unless that lock has expired."""
    await database.execute(database.queries.bind("update_setting", name=_name(queue), value=0, was=token))


def _name(queue: Queue) -> str:
    return f"lock of queue {queue.id}"
