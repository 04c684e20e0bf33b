"""Polls of all queues of a store, which one server makes for all, and what it tells the others of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32


class PollOfAll(NamedTuple):
    """What a poll of all queues has found.

    Attributes:
        asked_at: when it began, in ``elapsed_seconds``.
        first_due_ms: when the first job of a queue fell due, or does, of those queues where that is soon.
        shards: names of those that answered.
        is_whole: whether all that this server takes for healthy did.
    """

    asked_at: float
    first_due_ms: Mapping[str, int]
    shards: frozenset[str]
    is_whole: bool


PollAll = Callable[[int], Awaitable[PollOfAll]]
"""Polls all queues; is given within how many milliseconds first jobs fall due that are of interest."""

NotifyOfPoll = Callable[[PollOfAll, int], None]
"""Notifies others of a poll, given the present time in epoch milliseconds by the clock of the store."""

LAST_NUMBER = 2**32 - 1


def queue_number(queue: str) -> int:
    """Return a number that stands for a queue; several may have the same, which are polled together then."""
    return crc32(queue.encode())


def digest_of_shards(names: Iterable[str]) -> str:
    """Return what stands for a set of shards."""
    return blake2b(" ".join(sorted(names)).encode(), digest_size=8).hexdigest()


class PollNews(NamedTuple):
    """What a server tells others of a poll of all queues: which of them have no job that is due, or will be soon.

    Attributes:
        asked_ms: when the poll began, in epoch milliseconds by the clock of the store.
        age_ms: how long ago that was when this was sent.
        shards: digest of the shards that answered.
        first, last: it is about the queues with these numbers, and those between them.
        due: numbers of the queues that may have such a job.
    """

    asked_ms: int
    age_ms: int
    shards: str
    first: int
    last: int
    due: frozenset[int]

    def tells_empty(self, queue: str) -> bool:
        """Return whether a queue has no job that is due, or will be soon."""
        number = queue_number(queue)
        return self.first <= number <= self.last and number not in self.due


OnPoll = Callable[[PollNews], None]
"""Receives what another server or process has found."""
