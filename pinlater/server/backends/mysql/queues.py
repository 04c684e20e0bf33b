"""The queues of a shard, which any server may make or delete: known for a moment, then asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pinlater.errors import QueueNotFound
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import QueueChange, QueueSettings
from pinlater.server.backends.search import Queue

FRESH_SECONDS = 1.0
"""A queue deleted by another server may be looked into for so long. It gets no jobs, nor hands out any: enqueues and
claims ask within their transactions."""


def not_found(name: str) -> QueueNotFound:
    """Return the error for a queue that is not there."""
    return QueueNotFound(f"there is no queue {name!r}; create it first (pinlater create-queue {name})")


class Queues:
    """Names and ids.

    Args:
        database: of the shard.
        priority_levels: priorities are 1 to this.
    """

    def __init__(self, database: Database, priority_levels: int) -> None:
        self._database = database
        self._priorities = range(1, priority_levels + 1)
        self._known: dict[str, Queue] = {}
        self._stale_at = 0.0
        self._looking = asyncio.Lock()
        self._changing = asyncio.Lock()

    async def named(self, name: str) -> Queue:
        """Return a queue.

        Raises:
            QueueNotFound: there is none of that name.
        """
        known = self._known.get(name)
        if known is None or asyncio.get_running_loop().time() >= self._stale_at:
            await self._look(is_urgent=known is None)
            known = self._known.get(name)
            if known is None:
                raise not_found(name)
        return known

    async def find(self, names: Sequence[str]) -> dict[str, Queue]:
        """Return those of the queues that are there."""
        missing = any(name not in self._known for name in names)
        await self._look(is_urgent=missing)
        return {name: self._known[name] for name in names if name in self._known}

    async def all(self) -> dict[str, Queue]:
        """Return all queues by name, as they are now."""
        await self._look(is_urgent=True)
        return self._known

    async def by_id(self) -> dict[int, str]:
        """Return all names."""
        await self._look(is_urgent=False)
        return {queue.id: queue.name for queue in self._known.values()}

    async def create(self, name: str) -> None:
        """Make a queue, if it is not there."""
        async with self._database.within_time(), self._changing:  # in the order in which it was asked for
            now = self._database.now_ms()
            statement = self._database.queries.bind("create_queue", name=name, now=now)
            await self._database.change(lambda transaction: transaction.run_to_end(statement), is_repeatable=True)
            self._stale_at = 0.0

    async def delete(self, name: str) -> None:
        """Let nobody find a queue any more; its jobs are removed bit by bit."""
        async with self._database.within_time(), self._changing:
            statement = self._database.queries.bind("delete_queue", name=name)
            await self._database.change(lambda transaction: transaction.run_to_end(statement), is_repeatable=True)
            self.forget(name)

    async def settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all queues."""
        rows = await self._database.rows(self._database.queries.bind("queue_settings"))
        return {name: QueueSettings(bool(is_paused), rate, most) for name, is_paused, rate, most in rows}

    async def change_settings(self, name: str, wanted: QueueChange) -> None:
        """Change a queue's settings.

        Raises:
            QueueNotFound: there is none of that name.
        """

        async def work(transaction: Transaction) -> None:
            rows = await transaction.rows("settings_of_queue", name=name)
            if not rows:
                raise not_found(name)
            is_paused, rate, most = QueueSettings(*rows[0]).changed(wanted)
            await transaction.run_to_end(
                transaction.bind(
                    "change_queue_settings",
                    name=name,
                    is_paused=bool(is_paused),
                    jobs_per_second=rate,
                    max_running=most,
                )
            )

        await self._database.change(work, is_repeatable=True)

    def forget(self, name: str) -> None:
        """Ask for the queue again before it is used again."""
        self._known.pop(name, None)

    async def _look(self, *, is_urgent: bool) -> None:
        """Read all queues; one reading does for all that wait for one."""
        asked_at = asyncio.get_running_loop().time()
        async with self._database.within_time(), self._looking:
            if not is_urgent and asked_at < self._stale_at:
                return
            if is_urgent and asked_at < self._stale_at - FRESH_SECONDS:
                return  # somebody else has looked since
            began_at = asyncio.get_running_loop().time()
            rows = await self._database.rows(self._database.queries.bind("queues"))
            self._known = {name: self._queue(queue_id, name) for queue_id, name in rows}
            self._stale_at = began_at + FRESH_SECONDS

    def _queue(self, queue_id: int, name: str) -> Queue:
        shard = self._database.shard
        return Queue(queue_id, name, tuple(f"{name}:s{shard}:p{priority}:" for priority in self._priorities))
