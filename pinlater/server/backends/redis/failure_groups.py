"""Failure groups: the scripts that end attempts store them; this module reads and deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pinlater.errors import QueueNotFound
from pinlater.model.failure_groups import CLAIM_EXPIRED, OTHER_ERRORS, FailureGroup, JobFailure
from pinlater.server.backends.failure_budget import (
    ALWAYS_KEPT,
    FIRST_LOOK_MS,
    KEPT_EMPTY_MS,
    MANY_GROUPS,
    MOST_CHECKED,
    MOST_COUNTED,
    MOST_GROUPS,
    NOTED_EVERY_MS,
    largest,
)
from pinlater.server.backends.redis.due_index import due_queues, forget_queue
from pinlater.server.backends.redis.script_calls import ALL_QUEUES, ScriptRunner

_INDEX = "earliest:failures"
"""Key of the sorted set of queues with failure groups, by the time of the next check for empty groups."""

_QUEUES_PAGE = 20
"""Queues that one script reads, few since each may have the most groups that a queue can have."""

_facts = msgspec.msgpack.Decoder(tuple[str, str, str, str]).decode


def _stored(failure: JobFailure) -> tuple[str, str, str, bool]:
    return (*failure[1:], failure.group in ALWAYS_KEPT)


_BUDGET = (MOST_GROUPS, (str(OTHER_ERRORS.group), _stored(OTHER_ERRORS)), NOTED_EVERY_MS, FIRST_LOOK_MS)

Failures = tuple[Any, dict[str, tuple[str, str, str, bool]]]
"""The arguments of ``keep_groups`` in the scripts."""


def failures_argument(failures: Iterable[JobFailure | None]) -> Failures:
    """Return the groups of failures in the form that scripts take."""
    return _BUDGET, {str(failure.group): _stored(failure) for failure in failures if failure is not None}


EXPIRY_ARGUMENTS = str(CLAIM_EXPIRED.group), msgspec.msgpack.encode(failures_argument([CLAIM_EXPIRED]))
"""The arguments of ``reap_expired`` about the group of expired claims."""


async def read(scripts: ScriptRunner, queues: Sequence[str], limit: int) -> list[FailureGroup]:
    """Return the largest failure groups of these queues, or without queues, of all that have any."""
    if not queues:
        queues = [name.decode() for name in await scripts.command("ZRANGE", scripts.shard_key(_INDEX), 0, -1)]
    found: list[FailureGroup] = []
    for start in range(0, len(queues), _QUEUES_PAGE):
        names = queues[start : start + _QUEUES_PAGE]
        answers = await scripts.run_for_shard("failure_groups", ALL_QUEUES, *names)
        for name, answer in zip(names, answers, strict=True):
            found += [_group(name, values) for values in zip(*[iter(answer or ())] * 5, strict=True)]
    return largest(found, limit)


def _group(queue: str, values: Sequence[Any]) -> FailureGroup:
    group, packed, last, *counts = values
    job, error, example, first = ("", "", "", float(last)) if packed is None else _facts(packed)  # Redis may evict it
    given_up, retrying = (min(count, MOST_COUNTED) for count in counts)
    return FailureGroup(queue, int(group), job, error, example, int(first), int(float(last)), given_up, retrying)


async def forget(scripts: ScriptRunner, priority_levels: int) -> int:
    """Delete groups that have been empty for long, and remove jobs that older servers have left in groups.

    Return how many groups were deleted.
    """
    ages = KEPT_EMPTY_MS, FIRST_LOOK_MS, MANY_GROUPS, FIRST_LOOK_MS
    deleted = 0
    [queues] = await due_queues(scripts, "failures", 0)
    for queue in queues:
        try:
            deleted += await scripts.run("forget_failures", queue, *ages, MOST_CHECKED, priority_levels)
        except QueueNotFound:
            await forget_queue(scripts, queue)
    return deleted
