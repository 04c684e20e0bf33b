"""SQLite as a store to measure: one file for each server."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.bare import BareStore
from benchmarks.database import Database
from benchmarks.finished import Finished

_WHEN_DONE = """SELECT min(updated_at), max(updated_at), count(*) FROM jobs INDEXED BY jobs_settled
                WHERE state >= 2 AND state = 2 AND updated_at >= ?"""


class SqliteStores:
    """Files in the servers' folders."""

    driver = "sqlite3"
    is_shared = False

    databases: Sequence[Database] = ()

    def settings(self, folder: Path, *, shards: int = 1, is_safe: bool = False) -> list[str]:  # noqa: ARG002 - see below
        """Return no settings: the file is at its default place, safe, and never has several shards."""
        return []

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Query the file."""
        file = folder / "pinlater.db"
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            return Finished(*connection.execute(_WHEN_DONE, (since_ms,)).fetchone())

    def statements(self, folder: Path) -> None:
        """Return None: SQLite does not count statements."""

    def work(self, folder: Path) -> dict[str, int]:  # noqa: ARG002 - SQLite counts nothing
        """Return no counts."""
        return {}

    def multiply(self, folder: Path, first: int, jobs: int) -> int:
        """Copy the jobs within the file, which no server has open."""
        with closing(sqlite3.connect(folder / "pinlater.db")) as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(jobs)")]
            others = ", ".join(column for column in columns if column != "id")
            connection.execute("PRAGMA journal_mode = WAL")
            [(lowest,)] = connection.execute("SELECT min(id) FROM jobs")
            for more in range(first, jobs, first):
                connection.execute(
                    f"INSERT INTO jobs (id, {others}) SELECT id + ?1, {others} FROM jobs WHERE id < ?2",
                    (more, lowest + min(first, jobs - more)),
                )
                connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return jobs

    def bare(self, folder: Path) -> BareStore:
        """Create a bare store."""
        return BareStore(folder / "bare.db")

    def close(self) -> None:
        """Do nothing: there is no server to stop."""
