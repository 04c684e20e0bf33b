"""The queues of a shard, and their settings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from pinlater.errors import QueueNotFound
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.redis.messages import drop_leftovers
from pinlater.server.backends.redis.script_calls import ALL_QUEUES, ScriptRunner

_REFRESH_SECONDS = 10.0
_REFRESH_QUEUES = 10
"""Every queue is refreshed once in this time; if there are many, each read refreshes only this many."""

_READ_PAGE = 500


class RedisQueues:
    """The queues of a shard: their names are in one set, and each queue has its own keys.

    Settings are cached, and read again when a counter shows that some have changed; the scripts that change settings
    increment it. A server of version 0.1 does so afterwards, and may fail before, so each read also refreshes a few
    queues.

    Args:
        scripts: runs scripts on the shard.
    """

    def __init__(self, scripts: ScriptRunner) -> None:
        self._scripts = scripts
        self._command = scripts.command
        self._names_key = scripts.shard_key(ALL_QUEUES)
        self._changes_key = f"{self._names_key}:changes"
        self._cache: dict[str, QueueSettings] = {}
        self._seen_changes: object = None
        self._to_refresh: list[str] = []
        self._next_refresh = 0.0

    async def create(self, queue: str) -> None:
        """Create a queue, unless it exists."""
        await self._scripts.run("create_queue", queue)

    async def delete(self, queue: str) -> None:
        """Delete a queue, if it exists."""
        with contextlib.suppress(QueueNotFound):
            await self._scripts.run("delete_queue", queue)
            await drop_leftovers(self._scripts)

    async def settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all existing queues."""
        changes, listed = await asyncio.gather(
            self._command("GET", self._changes_key), self._command("SMEMBERS", self._names_key)
        )
        names = [name.decode() for name in listed]  # one that is being created or deleted may be among them
        now = asyncio.get_running_loop().time()
        if self._seen_changes != changes or not self._cache:
            self._cache, self._seen_changes = {}, changes
            self._to_refresh, self._next_refresh = [], now + _REFRESH_SECONDS
        cache = self._cache
        await self._read([name for name in names if name not in cache], cache)
        await self._read(self._pop_to_refresh(names, now), cache)
        return {name: cache[name] for name in names if name in cache}

    async def settings_of(self, queue: str) -> QueueSettings | None:
        """Return the settings of a queue; None: it does not exist."""
        found: dict[str, QueueSettings] = {}
        await self._read([queue], found)
        return found.get(queue)

    def _pop_to_refresh(self, names: Sequence[str], now: float) -> list[str]:
        """Return the next few queues to refresh, so that a read costs the same for any number of queues."""
        if not self._to_refresh and now >= self._next_refresh:
            self._to_refresh, self._next_refresh = list(names), now + _REFRESH_SECONDS
        popped = self._to_refresh[:_REFRESH_QUEUES]
        del self._to_refresh[:_REFRESH_QUEUES]
        return popped

    async def _read(self, names: Sequence[str], cache: dict[str, QueueSettings]) -> None:
        for start in range(0, len(names), _READ_PAGE):
            page = names[start : start + _READ_PAGE]
            rows = await self._scripts.run_for_shard("queue_settings", ALL_QUEUES, *page)
            for name, row in zip(page, rows, strict=True):
                cache.pop(name, None)
                if row is not None:
                    cache[name] = _parse_settings(*row)

    async def change_settings(self, queue: str, change: QueueChange) -> None:
        """Change the settings of a queue."""
        await self._scripts.run("change_queue_settings", queue, *map(_argument, change))


def _argument(value: float | None) -> str:
    return "" if value is None else repr(value + 0)


def _parse_settings(is_paused: bytes | None, rate: bytes | None, *numbers: bytes | None) -> QueueSettings:
    max_running, shards, shards_by_load = (None if number is None else int(number) for number in numbers)
    return QueueSettings(
        is_paused is not None, None if rate is None else float(rate), max_running, shards, shards_by_load
    )
