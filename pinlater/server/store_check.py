"""Check of the store for ``--check``: whether it can be used, before a server needs it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pinlater.errors import ConfigError, ShardConnectionFailed
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores import open_store


def check_store(settings: Settings) -> str:
    """Read the file of shards, ping each shard, and return a description of the store.

    The SQLite store is not opened, since a running server may own it: only its directory is checked.

    Raises:
        ConfigError: the directory, the file of shards or the driver cannot be used.
        ShardConnectionFailed: shards do not answer; the message names each, and says why.
    """
    if settings.backend == "sqlite":
        _check_directory(settings.data_dir)
        return f"sqlite in {settings.data_dir}"
    return asyncio.run(_check_shards(settings))


def _check_directory(directory: Path) -> None:
    """Check that the store's file can be created; the directory itself may be missing."""
    existing = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise ConfigError(f"DATA_DIR={directory}: {existing} is not a directory; choose another with --data-dir")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigError(
            f"DATA_DIR={directory}: this user may not write to {existing}; choose another with --data-dir, "
            "or run the check as the user of the server"
        )


async def _check_shards(settings: Settings) -> str:
    store = await open_store(settings, Metrics())
    try:
        failures = await store.backend.ping_shards()
        names = [state.name for state in store.backend.shard_states()]
    finally:
        await store.backend.close()
        for task in store.tasks:
            task.close()
    if failures:
        raise ShardConnectionFailed("; ".join(f"shard {name}: {reason}" for name, reason in sorted(failures.items())))
    return f"{settings.backend}, {len(names)} shard{'s' if len(names) != 1 else ''} ({', '.join(names)})"
