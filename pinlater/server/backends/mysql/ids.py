"""Job ids: never given out twice on a shard, and known before a job is stored, so that storing can be repeated."""

from __future__ import annotations

from pinlater.server.backends.mysql.database import Database

BLOCK = 100_000
"""How many ids are reserved at once; what the end of a server leaves of a block is never used."""


class Ids:
    """A server's ids on one shard.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next = 0
        self._end = 0

    async def take(self, count: int) -> int:
        """Return the first of ``count`` consecutive ids. Not to be called twice at once."""
        if self._next + count > self._end:
            size = count + BLOCK
            async with self._database.connection() as connection:
                reserve = self._database.queries.bind("reserve_ids", count=size)
                end = (await connection.run(reserve))[0].insert_id
            self._next, self._end = end - size, end
        first = self._next
        self._next += count
        return first
