"""The relay's connection to an SQLite file."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from pinlater.errors import ConfigError
from pinlater.outbox.database import Database, pause_before_commit
from pinlater.outbox.file_changes import FileChanges
from pinlater.outbox.waker import Waker

_POLL_SECONDS = 0.005
"""How often to read the version of the file if the system cannot report writes."""

_LONGEST_WAIT_SECONDS = 1.0
_COMMIT_SECONDS = 0.5
"""A write is seen before its commit, which waits for the disk; the version is polled for this long after a write."""


class SqliteDatabase(Database):
    """A connection of sqlite3."""

    def commit_by_itself(self) -> None:
        """Make each statement a separate transaction."""
        self._connection.isolation_level = None
        self._version = -1
        self._lock_file = -1
        self._changes: FileChanges | None = None
        self._written_at = 0.0

    def lock(self, name: str) -> bool:
        """Lock a file beside the database: SQLite has no locks that outlast a transaction and end with the process."""
        path = self.rows("PRAGMA database_list")[0][2]
        if not path:
            raise ConfigError(
                "an outbox in memory has no relay: nobody else can see it; use a file (in Django's tests, name one "
                "under TEST in DATABASES)"
            )
        if self._lock_file < 0:
            self._lock_file = os.open(f"{path}-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._changes = FileChanges(Path(path).parent)
        return True

    def remember(self) -> None:
        """Remember the version of the file, which changes with each commit of others."""
        self._version = self._version_of_file()

    def _version_of_file(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def wait(self, waker: Waker, seconds: float) -> None:
        """Wait until the version of the file changes, which means a commit."""
        until = time.monotonic() + min(seconds, _LONGEST_WAIT_SECONDS)
        while self._version_of_file() == self._version and not waker.is_set:
            now = time.monotonic()
            if now >= until:
                return
            self._wait_for_write(waker, now, until)

    def _wait_for_write(self, waker: Waker, now: float, until: float) -> None:
        if self._changes is None or self._changes.file is None:
            waker.wait(min(_POLL_SECONDS, until - now))
            return
        if self._changes.take():
            self._written_at = now
        since = now - self._written_at
        if since < _COMMIT_SECONDS:
            waker.wait(min(pause_before_commit(since), until - now))
        else:
            waker.wait(until - now, self._changes.file)

    def close(self) -> None:
        """Close the connection and unlock the file."""
        super().close()
        if self._changes is not None:
            self._changes.close()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1
