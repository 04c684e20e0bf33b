"""Polls of all queues of a store, which one server makes for all servers, and what it tells the others about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32


class PollOfAll(NamedTuple):
    """The result of a poll of all queues.

    Attributes:
        asked_at: when the poll began, in ``elapsed_seconds``.
        first_due_ms: when the first job of a queue falls or fell due; only for queues where that is soon.
        shards: names of the shards that answered.
        is_whole: whether all shards that this server considers healthy answered.
    """

    asked_at: float
    first_due_ms: Mapping[str, int]
    shards: frozenset[str]
    is_whole: bool


PollAll = Callable[[int], Awaitable[PollOfAll]]
"""Polls all queues for jobs that are due, or fall due within the given number of milliseconds."""

LAST_NUMBER = 2**32 - 1


def queue_number(queue: str) -> int:
    """Return a number that stands for a queue; queues that share a number are polled together."""
    return crc32(queue.encode())


def digest_of_shards(names: Iterable[str]) -> str:
    """Return a digest of a set of shard names."""
    return blake2b(" ".join(sorted(names)).encode(), digest_size=8).hexdigest()


class PollNews(NamedTuple):
    """What a server tells others about a poll of all queues: which of them have no job that is due or will be soon.

    Attributes:
        asked_ms: when the poll began, in epoch milliseconds by the clock of the store.
        age_ms: how long ago that was when this was sent.
        shards: digest of the names of the shards that answered.
        first, last: the lowest and the highest number of the queues that this is about.
        due: numbers of the queues that may have such a job.
    """

    asked_ms: int
    age_ms: int
    shards: str
    first: int
    last: int
    due: frozenset[int]

    def tells_empty(self, queue: str) -> bool:
        """Return whether this says that a queue has no job that is due or will be soon."""
        number = queue_number(queue)
        return self.first <= number <= self.last and number not in self.due
