"""Turns of queues: who has a queue's turn is alone with it for a while, also among servers.

A row for each among the settings of the shard: the moment until when somebody has the turn. Nobody holds a lock while
it is somebody's turn, and a server that dies keeps the others waiting no longer than that.
"""

from __future__ import annotations

import secrets

from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.search import Queue


class Turns:
    """The turns of a shard's queues.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, queue: Queue, milliseconds: int) -> int | None:
        """Return what ends the turn; None: somebody else has it."""

        async def work(transaction: Transaction) -> int | None:
            rows = await transaction.rows("turn", queue=queue.id)
            if not rows:
                await transaction.run(transaction.bind("make_turn", queue=queue.id))
            was, now = rows[0][0] if rows else 0, transaction.now * 1000
            # A turn that ends later than any can was taken by a clock that was wrong.
            if now < was <= now + 2 * milliseconds * 1000:
                return None
            until = now + milliseconds * 1000 + secrets.randbelow(1000)  # of its own, also within a millisecond
            change = transaction.bind("change_turn", queue=queue.id, until=until, was=was)
            [changed] = await transaction.run_to_end(change)
            return until if changed.matched else None

        return await self._database.change(work, is_repeatable=True)

    async def end(self, queue: Queue, turn: int) -> None:
        """End a turn, unless it is over."""
        change = self._database.queries.bind("change_turn", queue=queue.id, until=0, was=turn)
        await self._database.change(lambda transaction: transaction.run_to_end(change), is_repeatable=True)
