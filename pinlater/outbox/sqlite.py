"""The relay's connection to an SQLite file."""

from __future__ import annotations

import fcntl
import os
import time

from pinlater.errors import ConfigError
from pinlater.outbox.database import Database
from pinlater.outbox.waker import Waker

_POLL_SECONDS = 0.005
"""How often the file is looked at; that costs some microseconds."""


class SqliteDatabase(Database):
    """A connection of sqlite3."""

    def commit_by_itself(self) -> None:
        """Let each statement be a transaction of its own."""
        self._connection.isolation_level = None
        self._version = -1
        self._lock_file = -1

    def lock(self, name: str) -> bool:
        """Lock a file beside the database: SQLite has no locks that outlast a transaction, and end with a process."""
        path = self.rows("PRAGMA database_list")[0][2]
        if not path:
            raise ConfigError("an outbox in memory has no relay: nobody else can see it; use a file")
        if self._lock_file < 0:
            self._lock_file = os.open(f"{path}-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def remember(self) -> None:
        """Note the version of the file, which the commits of others change."""
        self._version = self._version_of_file()

    def _version_of_file(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def wait(self, waker: Waker, seconds: float) -> None:
        """Look at the version of the file until it changes."""
        until = time.monotonic() + seconds
        while not waker.wait(min(_POLL_SECONDS, until - time.monotonic())):
            if self._version_of_file() != self._version or time.monotonic() >= until:
                return

    def close(self) -> None:
        """Close the connection and unlock the file."""
        super().close()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1
