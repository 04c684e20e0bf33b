"""Answers of several shards, put together into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pinlater.model.queues import QueueSettings
from pinlater.server.backends.records import Collected, Expired

_UNLIMITED = QueueSettings()


def total(answers: Iterable[int]) -> int:
    """Return the sum."""
    return sum(answers)


def union(answers: Iterable[set[str]]) -> set[str]:
    """Return the names that any shard knows."""
    return set().union(*answers)


def settings(answers: Iterable[dict[str, QueueSettings]]) -> dict[str, QueueSettings]:
    """Return the settings of all queues; a shard that came later may not know of a queue's limits."""
    found: dict[str, QueueSettings] = {}
    for answer in answers:
        found |= {queue: one for queue, one in answer.items() if found.get(queue, _UNLIMITED) == _UNLIMITED}
    return found


def earliest(answers: Iterable[int | None]) -> int | None:
    """Return the earliest time; None if there is none."""
    return min((due_ms for due_ms in answers if due_ms is not None), default=None)


def earliest_of_shards(answers: Iterable[Mapping[str, int | None]]) -> dict[str, int | None]:
    """Return the earliest time of each queue that any shard knows."""
    found: dict[str, int | None] = {}
    for answer in answers:
        for queue, due_ms in answer.items():
            found[queue] = earliest((found.get(queue), due_ms))
    return found


def earliest_by_queue(by_priority: Mapping[str, Sequence[int | None]]) -> dict[str, int | None]:
    """Return the earliest time of each queue, given those of its priorities."""
    return {queue: earliest(dues) for queue, dues in by_priority.items()}


def expired(answers: Iterable[Sequence[Expired]]) -> list[Expired]:
    """Add up expired claims by queue."""
    retried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for one in (one for answer in answers for one in answer):
        retried[one.queue] += one.retried
        failed[one.queue] += one.failed
    return [Expired(queue, retried[queue], failed[queue]) for queue in retried]


def collected(answers: Iterable[Sequence[Collected]]) -> list[Collected]:
    """Add up deleted jobs by queue."""
    succeeded: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for one in (one for answer in answers for one in answer):
        succeeded[one.queue] += one.succeeded
        failed[one.queue] += one.failed
    return [Collected(queue, succeeded[queue], failed[queue]) for queue in succeeded]
