"""Open the store that the settings choose; no other store or driver is imported."""

from pinlater.server.config.kept_contents import NOTHING_KEPT, KeptContents
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores.opened_store import OpenedStore

__all__ = ["OpenedStore", "open_store"]


async def open_store(settings: Settings, metrics: Metrics, kept: KeptContents = NOTHING_KEPT) -> OpenedStore:
    """Open the store that the settings choose.

    Args:
        settings: the settings of the server.
        metrics: record what the store does.
        kept: has the previous content of the file of shards; see ``WatchedFile``.

    Raises:
        ConfigError: a file of the store cannot be used, or its driver is not installed.
    """
    if settings.backend == "sqlite" or settings.shards_file is None:
        from pinlater.server.stores.sqlite import open_sqlite  # a server of another store needs none of it

        return open_sqlite(settings, metrics)
    from pinlater.server.stores.sharded import open_sharded  # a server with an SQLite file needs none of it

    return await open_sharded(settings, settings.shards_file, metrics, kept)
