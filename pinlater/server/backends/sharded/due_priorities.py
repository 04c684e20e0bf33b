"""Which priorities of a queue each shard has due jobs of: read from the shards, and cached for a moment."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pinlater.errors import QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard import DuePriorities, Shard
from pinlater.server.backends.sharded.shard_handle import ShardHandle

FRESH_SECONDS = 0.05
"""Due priorities are cached for so long, or until this server stores jobs, so that many dequeues share one query."""


class ShardPriorities(NamedTuple):
    """The due priorities of a queue, shard by shard.

    Attributes:
        until: when they are too old to be used, in monotonic seconds.
        by_shard: due priorities by shard; those that turn out to be exhausted are removed.
        next_due_ms: when the next job falls due of those that are not.
        failure: the error of a shard that refused to tell its priorities.
    """

    until: float
    by_shard: dict[ShardHandle, set[int]]
    next_due_ms: int | None
    failure: ServiceError | None

    def owners(self, priority: int) -> list[ShardHandle]:
        """Return the shards that have due jobs of a priority, in random order."""
        owners = [handle for handle, priorities in self.by_shard.items() if priority in priorities]
        random.shuffle(owners)
        return owners

    @property
    def priorities(self) -> list[int]:
        """All priorities with due jobs, highest first."""
        return sorted({priority for priorities in self.by_shard.values() for priority in priorities})

    def exhausted(self, handle: ShardHandle, priority: int) -> None:
        """Record that a shard has no more due jobs of the priorities up to this one."""
        self.by_shard[handle] = {other for other in self.by_shard[handle] if other > priority}


class DuePriorityCache:
    """Reads the due priorities of queues, and caches them."""

    def __init__(self) -> None:
        self._cached: dict[str, ShardPriorities] = {}

    def get(self, queue: str, handles: Sequence[ShardHandle]) -> ShardPriorities | None:
        """Return what was read a moment ago, if it is of exactly these shards and not empty."""
        cached = self._cached.get(queue)
        if cached is None or time.monotonic() > cached.until or cached.by_shard.keys() != set(handles):
            return None
        return cached if cached.priorities else None

    async def read(self, queue: str, handles: Sequence[ShardHandle]) -> ShardPriorities:
        """Read the due priorities of a queue from these shards, and cache them.

        Raises:
            QueueNotFound: all that answered lack the queue.
            NoHealthyShards: none answered.
        """
        until = time.monotonic() + FRESH_SECONDS
        failure: ServiceError | None = None

        async def ask(shard: Shard) -> DuePriorities:
            nonlocal failure
            try:
                return await shard.due_priorities(queue)
            except (QueueNotFound, ShardConnectionFailed):
                raise
            except ServiceError as error:  # a refusal of one shard hides no job of the others
                failure = error
                return DuePriorities([], None)

        self._cached.pop(queue, None)
        pending = self._cached[queue] = ShardPriorities(0.0, {}, None, None)  # unless invalidated while it is read
        answers = await ask_all(handles, ask, patience=PATIENCE_SECONDS)
        due_ms = min((due.next_due_ms for _, due in answers if due.next_due_ms is not None), default=None)
        read = ShardPriorities(until, {handle: set(due.priorities) for handle, due in answers}, due_ms, failure)
        if self._cached.get(queue) is pending:
            if read.priorities:
                self._cached[queue] = read
            else:
                del self._cached[queue]
        return read

    @contextmanager
    def changing(self, queue: str) -> Iterator[None]:
        """Invalidate a queue at the end of what is done within."""
        try:
            yield
        finally:
            self.invalidate(queue)

    def invalidate(self, queue: str) -> None:
        """Drop what is cached of a queue: jobs have come."""
        self._cached.pop(queue, None)
