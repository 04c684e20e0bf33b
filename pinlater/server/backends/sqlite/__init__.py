"""The embedded store: one SQLite file, one writer thread with group commit, separate readers."""

from pinlater.server.backends.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
