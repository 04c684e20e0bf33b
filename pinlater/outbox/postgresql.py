"""The relay's connection to PostgreSQL."""

from __future__ import annotations

import hashlib
from typing import Any

from pinlater.outbox.database import POLL_SECONDS, Database
from pinlater.outbox.waker import Waker

_LONGEST_WAIT_SECONDS = 1.0
"""Rows that somebody stored without NOTIFY are found within this time."""

_KEEPALIVES = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""Make the server notice soon that the machine of a relay is gone, and release its lock."""


class PostgresqlDatabase(Database):
    """A connection of psycopg or psycopg2 (or of pg8000, through which the relay polls)."""

    def commit_by_itself(self) -> None:
        """Make each statement a separate transaction."""
        self._connection.autocommit = True
        self._is_listening = self._is_notified = False

    def lock(self, name: str) -> bool:
        """Take an advisory lock of the session for the table: in another schema, the same name is another table."""
        self.run(_KEEPALIVES)
        [[table]] = self.rows("SELECT CAST(CAST(? AS regclass) AS oid)", (name,))
        digest = hashlib.blake2b(f"pinlater_outbox_{table}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        return bool(self.rows("SELECT pg_try_advisory_lock(?)", (number,))[0][0])

    def listen(self, table: str) -> None:
        """LISTEN for the notifications of ``Outbox.enqueue``."""
        if hasattr(self._connection, "add_notify_handler"):
            self._connection.add_notify_handler(self._note)
        elif not hasattr(self._connection, "notifies"):
            return
        self.run(f'LISTEN "{table}"')
        self._is_listening = True

    def _note(self, _: Any) -> None:
        self._is_notified = True

    def remember(self) -> None:
        """Forget notifications: the next query sees the rows that they announce."""
        self._is_notified = False
        if isinstance(getattr(self._connection, "notifies", None), list):  # psycopg2
            del self._connection.notifies[:]

    def wait(self, waker: Waker, seconds: float) -> None:
        """Wait for a notification; one may have come with the answer of the last query."""
        notifies = getattr(self._connection, "notifies", None)
        if self._is_notified or (isinstance(notifies, list) and notifies):
            return
        if self._is_listening:
            waker.wait(min(seconds, _LONGEST_WAIT_SECONDS), self._connection.fileno())
        else:
            waker.wait(min(seconds, POLL_SECONDS))
