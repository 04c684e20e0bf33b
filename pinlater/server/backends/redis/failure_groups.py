"""Failure groups: kept by the scripts that end attempts; read and forgotten here."""

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
from pinlater.server.backends.redis.due_index import DueIndex
from pinlater.server.backends.redis.script_calls import ALL_QUEUES, ScriptRunner

_INDEX = "earliest:failures"
"""Key of the queues that have failure groups, by when to see whether they are empty."""

_QUEUES_PAGE = 20
"""Queues that one script reads: each may have as many groups as a queue may have."""

_facts = msgspec.msgpack.Decoder(tuple[str, str, str, str]).decode


def _stored(failure: JobFailure) -> tuple[str, str, str, bool]:
    return (*failure[1:], failure.group in ALWAYS_KEPT)


_BUDGET = (MOST_GROUPS, (str(OTHER_ERRORS.group), _stored(OTHER_ERRORS)), NOTED_EVERY_MS, FIRST_LOOK_MS)

Failures = tuple[Any, dict[str, tuple[str, str, str, bool]]]
"""What ``keep_groups`` of the scripts takes."""


def failures_argument(failures: Iterable[JobFailure | None]) -> Failures:
    """Return the groups of failures as scripts take them."""
    return _BUDGET, {str(failure.group): _stored(failure) for failure in failures if failure is not None}


EXPIRY_ARGUMENTS = str(CLAIM_EXPIRED.group), msgspec.msgpack.encode(failures_argument([CLAIM_EXPIRED]))
"""What ``reap_expired`` is told of the group of expired claims."""


async def read(scripts: ScriptRunner, queues: Sequence[str], limit: int) -> list[FailureGroup]:
    """Return the largest failure groups; no queues: of all that have any."""
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
    job, error, example, first = _facts(packed)
    given_up, retrying = (min(count, MOST_COUNTED) for count in counts)
    return FailureGroup(queue, int(group), job, error, example, int(first), int(float(last)), given_up, retrying)


async def forget(scripts: ScriptRunner, due_index: DueIndex, priority_levels: int) -> int:
    """Forget groups that have been empty for long, and take out what older servers have left; return how many."""
    ages = KEPT_EMPTY_MS, FIRST_LOOK_MS, MANY_GROUPS, FIRST_LOOK_MS
    deleted = 0
    for queue in await due_index.queues_with_failures():
        try:
            deleted += await scripts.run("forget_failures", queue, *ages, MOST_CHECKED, priority_levels)
        except QueueNotFound:
            await scripts.command("ZREM", scripts.shard_key(_INDEX), queue)
    return deleted
