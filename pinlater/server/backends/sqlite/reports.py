"""Reports of workers, kept until they expire."""

from __future__ import annotations

import sqlite3

from pinlater.server.backends.records import MAX_REPORTS, KeptReport
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction
from pinlater.server.backends.sqlite.verb import one_by_one

_FORGOTTEN_AT_ONCE = 100


@one_by_one
def store(transaction: SqliteTransaction, worker_id: str, report: bytes, keep_ms: int) -> None:
    """Store the report of a worker, or delete it if ``keep_ms`` is 0; delete some that have expired."""
    now = transaction.now
    if keep_ms:
        transaction.run(QUERIES["keep_report"], (worker_id, now, report, now + keep_ms))
    else:
        transaction.run(QUERIES["forget_report"], (worker_id,))
    transaction.run(QUERIES["forget_expired_reports"], (_FORGOTTEN_AT_ONCE, now))


def read(connection: sqlite3.Connection, now: int, max_bytes: int) -> list[KeptReport]:
    """Return the reports that have not expired, as many as fit into ``max_bytes``."""
    found: list[KeptReport] = []
    rows = connection.execute(QUERIES["reports"], (MAX_REPORTS, now))
    for row in rows:
        max_bytes -= len(row[1])
        if max_bytes < 0:
            break
        found.append(KeptReport(*row))
    rows.close()  # or the read transaction would stay open
    return found
