"""Whether a database locks the rows that a statement says it shall, and lets others skip them; claims rely on it.

Some databases that speak MySQL's language take the words, and do not do it: two servers would hand out one job.
"""

from __future__ import annotations

from pinlater.server.backends.mysql.connection import Connection
from pinlater.server.backends.mysql.endpoint import Place
from pinlater.server.backends.mysql.errors import Blocked, Refused, Unreached
from pinlater.server.backends.mysql.queries import Queries

_ADVICE = "jobs would be handed out twice, so it cannot be a shard; use MariaDB 10.6 or newer, or MySQL 8.0 or newer"


async def check_row_locks(connection: Connection, place: Place, queries: Queries) -> None:
    """Lock a row, and see whether another connection skips it.

    Raises:
        Unreached: it does not.
    """
    try:
        rows = await _unlocked_rows(connection, place, queries)
    except Blocked:
        raise Unreached(f"{place!r} lets claims wait for rows instead of skipping them: {_ADVICE}") from None
    except Refused as error:
        raise Unreached(f"{place!r} does not know SKIP LOCKED ({error}): {_ADVICE}") from None
    if rows:
        raise Unreached(f"{place!r} does not lock what one connection claims against others: {_ADVICE}")


async def _unlocked_rows(connection: Connection, place: Place, queries: Queries) -> int:
    """Return how many rows a second connection finds free, of the one that the first has locked."""
    lock = queries.bind("lock_version")
    _, locked = await connection.run(queries.bind("begin"), lock)
    try:
        if not locked.rows:
            return 0  # another server does the same at this moment: its row was skipped
        other = await Connection.open(place)
        try:
            [found] = await other.run(lock)
        finally:
            other.close()
        return len(found.rows)
    finally:
        if connection.is_open:
            await connection.run(queries.bind("rollback"))
