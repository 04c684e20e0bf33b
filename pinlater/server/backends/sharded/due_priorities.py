"""Fronts: the priorities of a queue that each shard has due jobs of; read, and remembered for a moment."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pinlater.errors import QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard import Front, Shard
from pinlater.server.backends.sharded.shard_handle import Member

FRESH_SECONDS = 0.05
"""Fronts are remembered for so long, or until this server stores jobs, so that many dequeues share one query."""


class Seen(NamedTuple):
    """The fronts of a queue.

    Attributes:
        until: when they are too old to be used, in monotonic seconds.
        fronts: priorities by shard; those that turn out to be exhausted are removed.
        failure: the error of a shard that refused to tell its front.
    """

    until: float
    fronts: dict[Member, set[int]]
    next_due_ms: int | None
    failure: ServiceError | None

    def owners(self, priority: int) -> list[Member]:
        """Return the shards that have jobs of a priority to hand out, in random order."""
        owners = [member for member, priorities in self.fronts.items() if priority in priorities]
        random.shuffle(owners)
        return owners

    @property
    def priorities(self) -> list[int]:
        """All priorities that there are to hand out."""
        return sorted({priority for priorities in self.fronts.values() for priority in priorities})

    def exhausted(self, member: Member, priority: int) -> None:
        """Take note that a shard has no more jobs of the priorities up to this one."""
        self.fronts[member] = {other for other in self.fronts[member] if other > priority}


class Fronts:
    """Reads the fronts of queues."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def known(self, queue: str, members: Sequence[Member]) -> Seen | None:
        """Return the fronts that were read a moment ago, if they are those of these shards and not empty."""
        seen = self._seen.get(queue)
        if seen is None or time.monotonic() > seen.until or seen.fronts.keys() != set(members):
            return None
        return seen if seen.priorities else None

    async def look(self, queue: str, members: Sequence[Member]) -> Seen:
        """Read the fronts of these shards, and remember them.

        Raises:
            QueueNotFound: all that answered lack the queue.
            NoHealthyShards: none answered.
        """
        until = time.monotonic() + FRESH_SECONDS
        failure: ServiceError | None = None

        async def front(shard: Shard) -> Front:
            nonlocal failure
            try:
                return await shard.front(queue)
            except (QueueNotFound, ShardConnectionFailed):
                raise
            except ServiceError as error:  # a refusal of one shard hides no job of the others
                failure = error
                return Front([], None)

        self._seen.pop(queue, None)
        looked = self._seen[queue] = Seen(0.0, {}, None, None)  # unless it is forgotten while it is under way
        answers = await ask_all(members, front, patience=PATIENCE_SECONDS)
        due = min((front.next_due_ms for _, front in answers if front.next_due_ms is not None), default=None)
        seen = Seen(until, {member: set(front.priorities) for member, front in answers}, due, failure)
        if self._seen.get(queue) is looked:
            if seen.priorities:
                self._seen[queue] = seen
            else:
                del self._seen[queue]
        return seen

    @contextmanager
    def changing(self, queue: str) -> Iterator[None]:
        """Forget the fronts of a queue at the end of what is done within."""
        try:
            yield
        finally:
            self.forget(queue)

    def forget(self, queue: str) -> None:
        """Forget the fronts of a queue: jobs have come."""
        self._seen.pop(queue, None)
