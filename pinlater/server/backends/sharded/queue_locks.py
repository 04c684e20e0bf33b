"""Locks of queues: where a limit counts over all shards, one dequeue at a time counts and claims, over all servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from weakref import WeakValueDictionary

from pinlater.errors import QueueNotFound, ServiceError
from pinlater.server.backends.sharded.rendezvous import rank
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.retry_until_done import RetryQueue

LOCK_MS = 20_000
"""A lock expires after this time, should its server die. Calls to shards end within 10 s, so none outlives the lock."""

MAX_CLAIM_SECONDS = 5.0
"""A dequeue that has locked a queue claims within this time, or not at all."""

_PATIENCE_SECONDS = 1.0
_PAUSES_SECONDS = (0.002, 0.05)


class QueueLock:
    """The result of locking a queue.

    Attributes:
        token: unlocks the queue; None: not acquired, since another server has locked it.

    Args:
        began: when the lock was asked for, in monotonic seconds.
    """

    def __init__(self, token: int | None, began: float) -> None:
        self.token = token
        self._began = began

    @property
    def is_ours(self) -> bool:
        """Whether the lock was acquired recently enough to make claims under it."""
        return self.token is not None and time.monotonic() - self._began < MAX_CLAIM_SECONDS

    @property
    def is_expired(self) -> bool:
        """Whether the lock has expired."""
        return time.monotonic() - self._began > LOCK_MS / 1000


class ShardedQueueLocks:
    """Locks queues for dequeues under a limit of running jobs.

    Args:
        group: the shards; one of them, the same for all servers, keeps the lock of a queue.
    """

    def __init__(self, group: ShardGroup) -> None:
        self._group = group
        self._ours: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._retries = RetryQueue()

    def home(self, queue: str) -> ShardHandle:
        """Return the shard that keeps the lock of a queue, healthy or not."""
        return max(self._group.registry, key=lambda handle: rank(handle.name, queue))

    @asynccontextmanager
    async def of(self, queue: str) -> AsyncIterator[QueueLock]:
        """Lock a queue for the block, after the other dequeues of this process.

        After an error the lock is left to expire, since a claim may still be in flight.

        Raises:
            ServiceError: the shard that keeps the lock failed.
        """
        # The wait behind others here counts, too: if a server has died with the lock, all of them wait together.
        deadline = time.monotonic() + _PATIENCE_SECONDS
        lock = self._ours.setdefault(queue, asyncio.Lock())
        async with lock:
            home = self.home(queue)
            queue_lock = await self._lock(home, queue, deadline)
            yield queue_lock
            if queue_lock.token is not None:
                await self._unlock(home, queue, queue_lock)

    async def _lock(self, home: ShardHandle, queue: str, deadline: float) -> QueueLock:
        pause, longest = _PAUSES_SECONDS
        while True:
            began = time.monotonic()
            token = await self._group.ask_owner(home, queue, lambda shard: shard.lock_queue(queue, LOCK_MS))
            if token is not None or began > deadline:
                return QueueLock(token, began)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _unlock(self, home: ShardHandle, queue: str, lock: QueueLock) -> None:
        """Unlock a queue; if the shard does not answer, retry in the background until it does."""
        try:
            await _unlock(home, queue, lock)
        except ServiceError:
            self._retries.add(partial(_unlock, home, queue, lock))

    async def close(self) -> None:
        """Stop; locks that could not be unlocked are left to expire."""
        await self._retries.close()


async def _unlock(home: ShardHandle, queue: str, lock: QueueLock) -> None:
    token = lock.token
    if token is None or lock.is_expired:
        return
    with suppress(QueueNotFound):
        await home.ask(lambda shard: shard.unlock_queue(queue, token))
