"""The queues of a shard; any server may create or delete them, so they are only cached briefly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.search import Queue
from pinlater.server.backends.store import queue_not_found

CACHE_SECONDS = 1.0
"""How long a queue that another server has deleted may still be read. No jobs are stored in it or claimed from it:
enqueues and claims check within their transactions that it exists."""


_MOST_ID = 2**30
"""Queues get random ids up to this. A fail-over to a replica that was behind, or a restored backup, may lack the newest
queues. If their ids were given to others, servers that remember them would store jobs there."""


class MysqlQueues:
    """Caches the names and ids of queues, and changes queues.

    Args:
        database: the shard's database.
        priority_levels: priorities are 1 to this.
        on_deleted: called with the ids of the queues that are left when a read shows that some were deleted.
    """

    def __init__(self, database: Database, priority_levels: int, on_deleted: Callable[[frozenset[int]], None]) -> None:
        self._database = database
        self._on_deleted = on_deleted
        self._priorities = range(1, priority_levels + 1)
        self._cache: dict[str, Queue] = {}
        self._ids: frozenset[int] = frozenset()
        self._expires_at = 0.0
        self._refreshing = asyncio.Lock()
        self._changing = asyncio.Lock()

    async def get(self, name: str) -> Queue:
        """Return a queue.

        Raises:
            QueueNotFound: it does not exist.
        """
        known = self._cache.get(name)
        if known is None or asyncio.get_running_loop().time() >= self._expires_at:
            await self._refresh(is_missing=known is None)
            known = self._cache.get(name)
            if known is None:
                raise queue_not_found(name)
        return known

    async def find(self, names: Sequence[str]) -> dict[str, Queue]:
        """Return the named queues that exist, by name."""
        await self._refresh(is_missing=any(name not in self._cache for name in names))
        return {name: self._cache[name] for name in names if name in self._cache}

    async def all(self) -> dict[str, Queue]:
        """Return all queues by name, read after the call began."""
        await self._refresh(is_missing=True)
        return self._cache

    async def names_by_id(self) -> dict[int, str]:
        """Return the names of all queues by id."""
        await self._refresh(is_missing=False)
        return {queue.id: queue.name for queue in self._cache.values()}

    async def create(self, name: str) -> None:
        """Create a queue, unless it exists."""
        async with self._database.time_limit(), self._changing:  # changes are made in the order of the calls
            now = self._database.now_ms()
            queue_id = random.randint(1, _MOST_ID)  # noqa: S311 - no secret
            statement = self._database.queries.bind("create_queue", id=queue_id, name=name, now=now)
            await self._database.execute(statement)
            self._expires_at = 0.0

    async def delete(self, name: str) -> None:
        """Delete a queue, if it exists; its jobs are deleted later, in pages."""
        async with self._database.time_limit(), self._changing:
            await self._database.execute(self._database.queries.bind("delete_queue", name=name))
            self.forget(name)

    async def settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all queues."""
        rows = await self._database.rows(self._database.queries.bind("queue_settings"))
        return {name: _settings(row) for name, *row in rows}

    async def settings_of(self, name: str) -> QueueSettings | None:
        """Return the settings of a queue; None: it does not exist."""
        rows = await self._database.rows(self._database.queries.bind("settings_of_queue", name=name))
        return _settings(rows[0]) if rows else None

    async def change_settings(self, name: str, changes: QueueChange) -> None:
        """Change the settings of a queue.

        Raises:
            QueueNotFound: it does not exist.
        """

        async def change(transaction: MysqlTransaction) -> None:
            rows = await transaction.rows("locked_settings_of_queue", name=name)
            if not rows:
                raise queue_not_found(name)
            settings = changes.applied_to(_settings(rows[0]))
            await transaction.run_and_commit(
                transaction.bind(
                    "change_queue_settings",
                    name=name,
                    is_paused=settings.is_paused,
                    jobs_per_second=settings.jobs_per_second,
                    max_running=settings.max_running,
                    shards=settings.shards,
                    shards_by_load=settings.shards_by_load,
                )
            )

        await self._database.change(change, is_repeatable=True)

    def forget(self, name: str) -> None:
        """Remove a queue from the cache."""
        self._cache.pop(name, None)

    async def _refresh(self, *, is_missing: bool) -> None:
        """Read the queues if the cache has expired or a queue is missing from it; waiting calls share one read."""
        called_at = asyncio.get_running_loop().time()
        async with self._database.time_limit(), self._refreshing:
            if not is_missing and called_at < self._expires_at:
                return
            if is_missing and called_at < self._expires_at - CACHE_SECONDS:
                return  # it was read after this call began
            began_at = asyncio.get_running_loop().time()
            if not await self._is_current():
                await self._read()
            self._expires_at = began_at + CACHE_SECONDS

    async def _is_current(self) -> bool:
        """Return whether the cache has exactly the queues that exist; ids are never used again."""
        [version] = await self._database.rows(self._database.queries.bind("queues_version"))
        return tuple(version) == (len(self._ids), sum(self._ids)) and len(self._cache) == len(self._ids)

    async def _read(self) -> None:
        rows = await self._database.rows(self._database.queries.bind("queues"))
        self._cache = {name: self._queue(queue_id, name) for queue_id, name in rows}
        before, self._ids = self._ids, frozenset(queue_id for queue_id, _ in rows)
        if before - self._ids:
            self._on_deleted(self._ids)

    def _queue(self, queue_id: int, name: str) -> Queue:
        shard = self._database.shard
        return Queue(queue_id, name, tuple(f"{name}:s{shard}:p{priority}:" for priority in self._priorities))


def _settings(row: Sequence[Any]) -> QueueSettings:
    is_paused, *others = row
    return QueueSettings(bool(is_paused), *others)
