"""The relay's connection to MySQL or MariaDB."""

from __future__ import annotations

import hashlib
import time

from pinlater.outbox.database import POLL_SECONDS, Database, pause_before_commit
from pinlater.outbox.waker import Waker

_PATIENCE_SECONDS = 60
"""The server ends a connection that is silent for this long, such as that of a machine that is gone."""

_LOOK_SECONDS = 0.004
_MOST_LOOKS = 50
"""Polls in one statement. While it runs, ALTER TABLE waits for it, and so does a stop of the relay."""

# The database polls by itself in one statement: a round trip per poll would cost it more, and the relay much more.
# The statement reads at READ UNCOMMITTED, so it sees rows before their commit: at other levels, all of its polls would
# see the same. Each poll depends on its number, or the database would evaluate it only once.
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
        """Make each statement a separate transaction."""
        self._listens_to = ""
        if callable(self._connection.autocommit):
            self._connection.autocommit(True)
        else:
            self._connection.autocommit = True

    def lock(self, name: str) -> bool:
        """Take a named lock of the session; the schema is part of the name, since the whole server shares the names."""
        self.run(f"SET SESSION wait_timeout = {_PATIENCE_SECONDS}")
        [[schema]] = self.rows("SELECT DATABASE()")
        digest = hashlib.blake2b(f"{schema}.{name}".encode(), digest_size=16).hexdigest()
        return bool(self.rows("SELECT GET_LOCK(?, 0)", (f"pinlater_outbox_{digest}",))[0][0])

    def listen(self, table: str) -> None:
        """Let the database poll for rows of a table during ``wait``; it cannot notify of them."""
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
        """Poll for a row, committed or not, for at most ``seconds``; return whether there is one."""
        looks = max(min(int(seconds / _LOOK_SECONDS), _MOST_LOOKS), 1)
        self.run("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")  # for the next statement only
        return bool(self.rows(_MANY_LOOKS.format(table=self._listens_to, looks=looks)))

    def _is_row_committed(self) -> bool:
        return bool(self.rows(f"{_ONE_LOOK} LIMIT 1".format(table=self._listens_to)))
