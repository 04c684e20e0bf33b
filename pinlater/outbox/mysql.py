"""The relay's connection to MySQL or MariaDB."""

from __future__ import annotations

import hashlib

from pinlater.outbox.database import POLL_SECONDS, Database
from pinlater.outbox.waker import Waker

_PATIENCE_SECONDS = 60
"""The server ends a connection that says nothing for so long, such as that of a machine that is gone."""


class MysqlDatabase(Database):
    """A connection of PyMySQL, mysqlclient, Connector/Python or MariaDB's connector."""

    def commit_by_itself(self) -> None:
        """Let each statement be a transaction of its own."""
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

    def wait(self, waker: Waker, seconds: float) -> None:
        """Wait for a moment: MySQL cannot tell of new rows."""
        waker.wait(min(seconds, POLL_SECONDS))
