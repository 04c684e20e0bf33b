"""Open a store that is an SQLite file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores.opened_store import OpenedStore
from pinlater.server.stores.options import options_of


def open_sqlite(settings: Settings, metrics: Metrics, now_ms: Callable[[], int] | None = None) -> OpenedStore:
    """Open the file that the settings name.

    Args:
        settings: the settings of the server.
        metrics: record what the store does.
        now_ms: the clock of the store; None: a ``SteadyClock``.

    Raises:
        ConfigError: it cannot be used.
    """
    options = replace(options_of(settings, metrics), now_ms=now_ms)
    backend = SqliteStore(settings.data_dir, options, synchronous=settings.sqlite_synchronous)
    tasks = (backend.files.run(), backend.writes.run())
    return OpenedStore(backend, tasks, str(settings.data_dir), options.notifications)
