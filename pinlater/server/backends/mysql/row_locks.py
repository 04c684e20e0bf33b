"""Check that a database locks rows and skips locked ones, as claims require.

Some databases that speak MySQL's protocol accept the syntax and ignore it; two servers would then claim the same job.
"""

from __future__ import annotations

from pinlater.server.backends.mysql.connection import MysqlConnection, MysqlEndpoint
from pinlater.server.backends.mysql.errors import ConnectFailed, LockTimeout, StatementRejected
from pinlater.server.backends.mysql.queries import Queries

_ADVICE = (
    "two servers would claim the same job, so it cannot be a shard; use MariaDB 10.6 or newer, or MySQL 8.0 or newer"
)


async def check_row_locks(connection: MysqlConnection, endpoint: MysqlEndpoint, queries: Queries) -> None:
    """Lock a row and check that another connection skips it.

    Raises:
        ConnectFailed: it is not skipped.
    """
    try:
        rows = await _count_unlocked(connection, endpoint, queries)
    except LockTimeout:
        raise ConnectFailed(f"{endpoint!r} waits for locked rows instead of skipping them: {_ADVICE}") from None
    except StatementRejected as error:
        raise ConnectFailed(f"{endpoint!r} does not support SKIP LOCKED ({error}): {_ADVICE}") from None
    if rows:
        raise ConnectFailed(f"{endpoint!r} does not lock rows: {_ADVICE}")


async def _count_unlocked(connection: MysqlConnection, endpoint: MysqlEndpoint, queries: Queries) -> int:
    """Return how many rows a second connection still reads while the first has the only row locked."""
    lock = queries.bind("lock_version")
    _, locked = await connection.run(queries.bind("begin"), lock)
    try:
        if not locked.rows:
            return 0  # skipped, since another server is running this check: row locks work
        other = await MysqlConnection.open(endpoint)
        try:
            [found] = await other.run(lock)
        finally:
            other.close()
        return len(found.rows)
    finally:
        if connection.is_open:
            await connection.run(queries.bind("rollback"))
