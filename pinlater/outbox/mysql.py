"""The relay's connection to MySQL or MariaDB."""

from __future__ import annotations

import hashlib
import time

from pinlater.outbox.database import POLL_SECONDS, Database, pause_before_commit
from pinlater.outbox.waker import Waker

_PATIENCE_SECONDS = 60
"""The server ends a connection that says nothing for so long, such as that of a machine that is gone."""

_LOOK_SECONDS = 0.004
_MOST_LOOKS = 50
"""Looks of one statement. While it runs, ALTER TABLE waits for it, and so does whoever stops the relay."""

# The database looks again and again by itself: a round trip for each look would cost it more, and the relay much more.
# It sees rows before their commit, at READ UNCOMMITTED: at other levels, a statement would see the same in each look.
# It repeats the look since that depends on the number of the look.
_DIGITS = " UNION ALL ".join(["SELECT 0 AS digit", *(f"SELECT {digit}" for digit in range(1, 10))])
_ONE_LOOK = "SELECT 1 FROM {table} WHERE retry_at_ms = 0"
_MANY_LOOKS = (
    f"SELECT 1 FROM (SELECT 10 * tens.digit + ones.digit AS number FROM ({_DIGITS}) AS tens "  # noqa: S608 - checked
    f"CROSS JOIN ({_DIGITS}) AS ones LIMIT {{looks}}) AS looks "
    f"WHERE ({_ONE_LOOK} AND id > -looks.number LIMIT 1) IS NOT NULL OR SLEEP({_LOOK_SECONDS}) LIMIT 1"
)


class MysqlDatabase(Database):
    """A connection of PyMySQL, mysqlclient, Connector/Python or MariaDB's connector."""

    def commit_by_itself(self) -> None:
        """Let each statement be a transaction of its own."""
        self._listens_to = ""
        if callable(self._connection.autocommit):
            self._connection.autocommit(True)
        else:
            self._connection.autocommit = True

    def lock(self, name: str) -> bool:
        """Take a named lock of the session; names are those of the whole server."""
        self.run(f"SET SESSION wait_timeout = {_PATIENCE_SECONDS}")
        [[schema]] = self.rows("SELECT DATABASE()")
        digest = hashlib.blake2b(f"{schema}.{name}".encode(), digest_size=16).hexdigest()
        return bool(self.rows("SELECT GET_LOCK(?, 0)", (f"pinlater_outbox_{digest}",))[0][0])

    def listen(self, table: str) -> None:
        """Let the database look for rows of a table during ``wait``; it cannot tell of them by itself."""
        self._listens_to = table

    def wait(self, waker: Waker, seconds: float) -> None:
        """Wait until the database sees a row, and then until that or another one is committed."""
        if not self._listens_to:
            waker.wait(min(seconds, POLL_SECONDS))
            return
        until = time.monotonic() + seconds
        while not waker.is_set and not self._is_row_expected(until - time.monotonic()):
            if time.monotonic() >= until:
                return
        seen_at = time.monotonic()
        while not waker.is_set and not self._is_row_committed() and (now := time.monotonic()) < until:
            waker.wait(min(pause_before_commit(now - seen_at), POLL_SECONDS, until - now))

    def _is_row_expected(self, seconds: float) -> bool:
        """Return whether there is a row, committed or not, within so many seconds, or fewer."""
        looks = max(min(int(seconds / _LOOK_SECONDS), _MOST_LOOKS), 1)
        self.run("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")  # of the next statement alone
        return bool(self.rows(_MANY_LOOKS.format(table=self._listens_to, looks=looks)))

    def _is_row_committed(self) -> bool:
        return bool(self.rows(f"{_ONE_LOOK} LIMIT 1".format(table=self._listens_to)))
