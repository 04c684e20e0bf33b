"""Calls about jobs whose descriptors name their shards: split by shard, made concurrently, and merged."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from pinlater.errors import QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.records import Cancelled, Settled
from pinlater.server.backends.sharded.fan_out import Call, ask_each
from pinlater.server.backends.sharded.partial_failure import partial_failure
from pinlater.server.backends.sharded.shard import Shard
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_registry import ShardRegistry
from pinlater.server.backends.unavailable import ChangeRefused

_I = TypeVar("_I", StoredAck, StoredCheckpoint)
_T = TypeVar("_T")

_NO_CHANGE = Settled(0, 0)


async def ack(group: ShardGroup, queue: str, succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]) -> Settled:
    """Ack jobs on their shards; if a shard fails, the others still carry out theirs.

    Raises:
        ServiceError: a shard failed, or does not exist; the other shards' acks were carried out.
    """
    done, failures = _by_shard(succeeded), _by_shard(failed)

    def call_at(name: str) -> Call[Settled]:
        return lambda shard: shard.ack_dequeued_jobs(queue, done.get(name, []), failures.get(name, []))

    sizes = {name: len(done.get(name, ())) + len(failures.get(name, ())) for name in (*done, *failures)}
    return await _merge_results(group.registry, call_at, sizes)


async def checkpoint(group: ShardGroup, queue: str, checkpoints: Sequence[StoredCheckpoint]) -> Settled:
    """Apply checkpoints on the shards of their jobs; if a shard fails, the others still carry out theirs.

    Raises:
        ServiceError: a shard failed, or does not exist; the other shards' checkpoints were carried out.
    """
    groups = _by_shard(checkpoints)

    def call_at(name: str) -> Call[Settled]:
        return lambda shard: shard.checkpoint_jobs(queue, groups[name])

    return await _merge_results(group.registry, call_at, {name: len(items) for name, items in groups.items()})


async def lookup(
    group: ShardGroup, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
) -> list[JobRecord | None]:
    """Look up jobs on their shards; return records in the order of ``jobs``.

    Raises:
        ShardConnectionFailed: a shard does not answer, so it is unknown whether its jobs exist.
        ShardConnectionFailed, UnknownError: a descriptor names a shard that does not exist.
    """
    places = grouped((job.shard, place) for place, job in enumerate(jobs))
    handles = [group.registry.named(name) for name in places]

    def call_at(name: str) -> Call[list[JobRecord | None]]:
        own = [jobs[place] for place in places[name]]
        return lambda shard: shard.lookup_jobs(own, body_bytes=body_bytes, include_result=include_result)

    answers = await asyncio.gather(*(handle.ask(call_at(handle.name)) for handle in handles))
    records: list[JobRecord | None] = [None] * len(jobs)
    for own, found in zip(places.values(), answers, strict=True):
        for place, record in zip(own, found, strict=True):
            records[place] = record
    return records


async def cancel(group: ShardGroup, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
    """Cancel jobs on their shards; shards that lack the queue are skipped, unless all of them do.

    Raises:
        ShardConnectionFailed, UnknownError: a descriptor names a shard that does not exist; nothing was done.
        ServiceError: a shard failed; the other shards have done their part.
    """
    done = await _ask_shards_of(group.registry, jobs, lambda shard, own: shard.cancel_jobs(queue, own, status))
    return Cancelled(
        tuple(chain.from_iterable(one.ended for one in done)),
        tuple(chain.from_iterable(one.asked for one in done)),
        sum(one.let_through for one in done),
        tuple(chain.from_iterable(one.parents for one in done)),
        sum(one.newly_ended for one in done),
    )


async def finish_cancellation(group: ShardGroup, queue: str, jobs: Sequence[JobDescriptor]) -> None:
    """Finish the cancellation of jobs on their shards; see ``cancel``."""
    await _ask_shards_of(group.registry, jobs, lambda shard, own: shard.finish_cancellation(queue, own))


async def _ask_shards_of(
    registry: ShardRegistry, jobs: Iterable[JobDescriptor], call: Callable[[Shard, list[JobDescriptor]], Awaitable[_T]]
) -> list[_T]:
    """Ask the shards of jobs concurrently; leave out those that lack the queue, unless all of them do."""
    groups = grouped((job.shard, job) for job in jobs)
    handles = [registry.named(name) for name in groups]
    done, error = await ask_each(handles, lambda handle: handle.ask(lambda shard: call(shard, groups[shard.name])))
    if error is not None:
        _mark_partial(error, is_partial=bool(done))
        raise error
    return list(done.values())


async def count(
    registry: ShardRegistry, jobs: Sequence[JobDescriptor], call: Callable[[Shard, list[JobDescriptor]], Awaitable[int]]
) -> int:
    """Change jobs on their shards; return how many. If no jobs are given, ask all shards, to notice a missing queue.

    Raises:
        ShardConnectionFailed, UnknownError: a descriptor names a shard that does not exist; nothing was done.
        ServiceError: a shard failed; the other shards have done their part.
    """
    groups = grouped((job.shard, job) for job in jobs)
    handles = [registry.named(name) for name in groups] or registry.healthy()
    counts, error = await ask_each(
        handles, lambda handle: handle.ask(lambda shard: call(shard, groups.get(shard.name, [])))
    )
    changed = sum(counts.values())
    if changed and isinstance(error, ServiceError):
        raise partial_failure(error, f"{changed} of the {len(jobs)} jobs were changed, on other shards") from error
    if error is not None:
        raise error
    return changed


def _by_shard(items: Iterable[_I]) -> dict[str, list[_I]]:
    groups: defaultdict[str, list[_I]] = defaultdict(list)  # by hand, which is faster: each ack comes here
    for item in items:
        groups[item.job.shard].append(item)
    return groups


async def _merge_results(
    registry: ShardRegistry, call_at: Callable[[str], Call[Settled]], sizes: Mapping[str, int]
) -> Settled:
    """Call the shards in ``sizes`` concurrently and add up the results; ``sizes`` is the number of jobs per shard."""

    async def one(name: str) -> Settled:
        return await registry.named(name).ask(call_at(name))

    if len(sizes) == 1:
        return await one(*sizes)
    results = dict(zip(sizes, await asyncio.gather(*map(one, sizes), return_exceptions=True), strict=True))
    missing = [result for result in results.values() if isinstance(result, QueueNotFound)]
    if missing and len(missing) == len(results):
        raise missing[0]
    total = _NO_CHANGE
    error: BaseException | None = None
    for name, result in results.items():
        if isinstance(result, QueueNotFound):  # the queue exists on other shards, and never had a job on this one
            total = _sum(total, Settled(0, sizes[name]))
        elif isinstance(result, BaseException):
            # If the call may succeed later, it has to be made again, whatever another shard says.
            error = error if isinstance(error, ShardConnectionFailed | ChangeRefused) else result
        else:
            total = _sum(total, result)
    if error is not None:
        _mark_partial(error, is_partial=total.changed > 0)
        raise error
    return total


def _mark_partial(error: BaseException, *, is_partial: bool) -> None:
    if isinstance(error, ServiceError):
        error.is_partial = is_partial


def _sum(one: Settled, other: Settled) -> Settled:
    dues = [due for due in (one.due_ms, other.due_ms) if due is not None]
    changed, stale = one.changed + other.changed, one.stale + other.stale
    failed, let_through = one.failed + other.failed, one.let_through + other.let_through
    lost, cancelled = one.lost + other.lost, one.cancelled + other.cancelled
    return Settled(changed, stale, min(dues, default=None), lost, failed, let_through, cancelled)
