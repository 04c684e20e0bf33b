"""Merging the answers of several shards into one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from pinlater.model.failure_groups import FailureGroup
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.records import Collected, Expired

OfQueue = TypeVar("OfQueue", Expired, Collected)
_T = TypeVar("_T")


def total(answers: Iterable[int]) -> int:
    """Return the sum."""
    return sum(answers)


def union(answers: Iterable[set[str]]) -> set[str]:
    """Return the names that any shard knows."""
    return set().union(*answers)


def settings(answers: Iterable[dict[str, QueueSettings]]) -> dict[str, QueueSettings]:
    """Return the settings of all queues.

    A change is made on every shard, but one that was added later, or did not answer, may lack earlier ones. So a
    setting counts if any shard has it. Where shards have different values, the stricter limit and the larger number of
    shards count, so that every server comes to the same result in whatever order the shards answer.
    """
    found: dict[str, QueueSettings] = {}
    for answer in answers:
        for queue, one in answer.items():
            known = found.get(queue, one)
            found[queue] = known if known == one else _strictest(known, one)
    return found


def _strictest(a: QueueSettings, b: QueueSettings) -> QueueSettings:
    return QueueSettings(
        is_paused=a.is_paused or b.is_paused,
        jobs_per_second=_of_set(min, a.jobs_per_second, b.jobs_per_second),
        max_running=_of_set(min, a.max_running, b.max_running),
        shards=_of_set(max, a.shards, b.shards),
        shards_by_load=_of_set(max, a.shards_by_load, b.shards_by_load),
    )


def _of_set(choose: Callable[[_T, _T], _T], a: _T | None, b: _T | None) -> _T | None:
    """Choose one of two values; one that is None is not set."""
    if a is None or b is None:
        return b if a is None else a
    return choose(a, b)


def all_states(answers: Iterable[Mapping[str, set[int]]]) -> dict[str, set[int]]:
    """Return the states in which any shard has jobs, by queue."""
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


def queues_of(ended: Iterable[Expired]) -> list[str]:
    """Return the queues of expired claims."""
    return [one.queue for one in ended]


def collected(answers: Iterable[Sequence[Collected]]) -> list[Collected]:
    """Add up deleted jobs by queue."""
    return _by_queue(answers, lambda a, b: Collected(a.queue, a.succeeded + b.succeeded, a.failed + b.failed))


def failure_groups(answers: Iterable[Iterable[FailureGroup]]) -> list[FailureGroup]:
    """Add up the jobs of failure groups; the example is taken from the shard with the group's first failure."""
    return _merged(answers, attrgetter("queue", "id"), _both)


def _both(a: FailureGroup, b: FailureGroup) -> FailureGroup:
    first = min(a, b, key=attrgetter("first_ms"))
    return first._replace(
        last_ms=max(a.last_ms, b.last_ms), given_up=a.given_up + b.given_up, retrying=a.retrying + b.retrying
    )


def _by_queue(answers: Iterable[Iterable[OfQueue]], add: Callable[[OfQueue, OfQueue], OfQueue]) -> list[OfQueue]:
    return _merged(answers, attrgetter("queue"), add)


def _merged(answers: Iterable[Iterable[_T]], key_of: Callable[[_T], Hashable], add: Callable[[_T, _T], _T]) -> list[_T]:
    found: dict[Hashable, _T] = {}
    for one in chain.from_iterable(answers):
        key = key_of(one)
        found[key] = add(found[key], one) if key in found else one
    return list(found.values())
