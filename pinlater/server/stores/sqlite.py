"""Open a store that is an SQLite file."""

from __future__ import annotations

from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.clock import SteadyClock
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores.commits import commit_observer
from pinlater.server.stores.opened_store import OpenedStore


def open_sqlite(settings: Settings, metrics: Metrics) -> OpenedStore:
    """Open the file that the settings name.

    Raises:
        ConfigError: it cannot be used.
    """
    clock, notifications = SteadyClock(), JobNotifications()
    backend = SqliteStore(
        settings.data_dir,
        priority_levels=settings.priority_levels,
        now_ms=clock.now_ms,
        synchronous=settings.sqlite_synchronous,
        count_limit=settings.count_limit,
        regex_seconds=settings.regex_timeout_seconds,
        on_commit=commit_observer(metrics),
        notifications=notifications,
    )
    tasks = (backend.files.run(), backend.writes.run())
    return OpenedStore(backend, clock.now_ms, tasks, str(settings.data_dir), notifications, notifies_servers=True)
