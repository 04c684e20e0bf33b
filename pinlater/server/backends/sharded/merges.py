"""Answers of several shards, put together into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from pinlater.model.failure_groups import FailureGroup
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.records import Collected, Expired

OfQueue = TypeVar("OfQueue", Expired, Collected)

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


def all_states(answers: Iterable[Mapping[str, set[int]]]) -> dict[str, set[int]]:
    """Return the states that any shard has jobs in, by queue."""
    found: dict[str, set[int]] = {}
    for answer in answers:
        for queue, states in answer.items():
            found[queue] = found.get(queue, set()) | states
    return found


def earliest(answers: Iterable[int | None]) -> int | None:
    """Return the earliest time; None if there is none."""
    return min((due_ms for due_ms in answers if due_ms is not None), default=None)


def expired(answers: Iterable[Sequence[Expired]]) -> list[Expired]:
    """Add up expired claims by queue."""
    return _by_queue(answers, lambda a, b: Expired(a.queue, a.retried + b.retried, a.failed + b.failed))


def collected(answers: Iterable[Sequence[Collected]]) -> list[Collected]:
    """Add up deleted jobs by queue."""
    return _by_queue(answers, lambda a, b: Collected(a.queue, a.succeeded + b.succeeded, a.failed + b.failed))


def failure_groups(answers: Iterable[Iterable[FailureGroup]]) -> list[FailureGroup]:
    """Add up the jobs of failure groups; a group's example is that of its first failure."""
    found: dict[tuple[str, int], FailureGroup] = {}
    for one in chain.from_iterable(answers):
        known = found.get((one.queue, one.id), one)
        first, last = sorted((known, one), key=attrgetter("first_ms")), max(known.last_ms, one.last_ms)
        counts = (known.given_up + one.given_up, known.retrying + one.retrying) if known is not one else one[-2:]
        found[one.queue, one.id] = first[0]._replace(last_ms=last, given_up=counts[0], retrying=counts[1])
    return list(found.values())


def _by_queue(answers: Iterable[Iterable[OfQueue]], add: Callable[[OfQueue, OfQueue], OfQueue]) -> list[OfQueue]:
    found: dict[str, OfQueue] = {}
    for one in chain.from_iterable(answers):
        found[one.queue] = add(found[one.queue], one) if one.queue in found else one
    return list(found.values())
