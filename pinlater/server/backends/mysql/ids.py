"""Job ids: never reused on a shard, and known before a job is stored, so that storing it can be repeated."""

from __future__ import annotations

import random

from pinlater.server.backends.mysql.database import Database

BLOCK = 100_000
"""How many ids a server reserves at once; those left over when it stops are never used."""

GAP = 100_000_000
"""Up to this many ids are left out before a block, at random. A fail-over to a replica that was behind may lose the
latest reservations, and those after it would be of the same ids: jobs would get the descriptors of jobs that were lost.
"""


class IdAllocator:
    """Allocates the job ids of one server on one shard.

    Args:
        database: the shard's database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next = 0
        self._end = 0

    async def allocate(self, count: int) -> int:
        """Allocate ``count`` consecutive ids and return the first. Must not be called concurrently."""
        if self._next + count > self._end:
            size = count + BLOCK
            async with self._database.connection() as connection:
                reserve = self._database.queries.bind("reserve_ids", count=size + random.randrange(GAP))  # noqa: S311 - no secret
                end = (await connection.run(reserve))[0].insert_id
            self._next, self._end = end - size, end
        first = self._next
        self._next += count
        return first

    def drop_block(self) -> None:
        """Let the next ids come from another block, as another server has ids of this one."""
        self._next = self._end
