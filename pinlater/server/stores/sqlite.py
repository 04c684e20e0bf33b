"""Open a store that is an SQLite file."""

from __future__ import annotations

from collections.abc import Callable

from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.clock import SteadyClock
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores.commits import commit_observer
from pinlater.server.stores.opened_store import OpenedStore


def open_sqlite(settings: Settings, metrics: Metrics, now_ms: Callable[[], int] | None = None) -> OpenedStore:
    """Open the file that the settings name.

    Args:
        settings: the settings of the server.
        metrics: record what the store does.
        now_ms: the clock of the store; None: a ``SteadyClock``.

    Raises:
        ConfigError: it cannot be used.
    """
    now_ms, notifications = now_ms or SteadyClock().now_ms, JobNotifications()
    backend = SqliteStore(
        settings.data_dir,
        priority_levels=settings.priority_levels,
        now_ms=now_ms,
        synchronous=settings.sqlite_synchronous,
        count_limit=settings.count_limit,
        regex_seconds=settings.regex_timeout_seconds,
        on_commit=commit_observer(metrics),
        notifications=notifications,
    )
    tasks = (backend.files.run(), backend.writes.run())
    return OpenedStore(backend, now_ms, tasks, str(settings.data_dir), notifications)
