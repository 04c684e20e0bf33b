"""Placement of new jobs on shards."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from pinlater.errors import EnqueueRejected, NoHealthyShards, ServiceError
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sharded.fan_out import ask_all, no_healthy_shards
from pinlater.server.backends.sharded.partial_failure import partial_failure
from pinlater.server.backends.sharded.shard import Shard, ShardFull, ShardUnreachable
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_J = TypeVar("_J")

_PATIENCE_SECONDS = 2.5
"""After this time, no further shard is tried. One that takes connections and is silent is given up after 2 s."""

StoreCall = Callable[[ShardHandle, Sequence[_J], IdempotencyKey | None], Awaitable[list[str]]]
"""Stores jobs on a shard, under an idempotency key of their own; returns their descriptors."""


class NewJobs(NamedTuple, Generic[_J]):
    """New jobs of one call.

    Attributes:
        queue: in this queue.
        jobs: these jobs.
        priorities: of each.
        keys: what selects the shard of each; None: any shard will do.
        unique_keys: of each; None: it has none.
        shards: that each has to go to; None: any that its key selects.
        once: idempotency key of the call.
    """

    queue: str
    jobs: Sequence[_J]
    priorities: Sequence[int]
    keys: Sequence[str | None]
    unique_keys: Sequence[str | None]
    shards: Sequence[str | None]
    once: IdempotencyKey | None

    def part(self, places: Sequence[int]) -> NewJobs[_J]:
        """Return some of the jobs, with an idempotency key of their own."""
        if len(places) == len(self.jobs):
            return self
        once = self.once and self.once._replace(value=_part_of(self.once.value, places))
        return NewJobs(
            self.queue,
            [self.jobs[place] for place in places],
            [self.priorities[place] for place in places],
            [self.keys[place] for place in places],
            [self.unique_keys[place] for place in places],
            [self.shards[place] for place in places],
            once,
        )


def _part_of(key: bytes, places: Sequence[int]) -> bytes:
    """Return the key of a part, near that of the whole in an index: the time comes first."""
    return key[:6] + hashlib.blake2b(key + repr(list(places)).encode(), digest_size=len(key) - 6).digest()


async def store(registry: ShardRegistry, given: NewJobs[_J], call: StoreCall[_J]) -> list[str]:
    """Store jobs; return their descriptors in the same order.

    Jobs that nothing binds to a shard go with others of the call, or to the first shard that answers. One with a parent
    goes to the shard of its parent, and if there are several shards, it cannot have a key, which may select another
    one. One that shares a key with others, or else has a unique key, goes to the shard that this key selects and to no
    other: there it is unique, or waits its turn, as long as the shards stay the same. All these shards are pinged
    before anything is stored. Jobs with keys go first: if the call fails half-way and is made again, the jobs that were
    stored are found by their unique keys, or by the idempotency key of the call, and nothing is stored twice. The error
    says so: a shard may answer and still refuse its part, and jobs that others stored may be running by then, so they
    are not deleted.

    When the call is sent again, all healthy shards are asked first whether they have the jobs. A shard that stored
    them and does not answer by then cannot say so, and they are stored once more: rather twice than never.

    Args:
        registry: the shards.
        given: what to store.
        call: stores some of them on a shard.

    Raises:
        NoHealthyShards: no shard takes jobs at present.
        EnqueueRejected: a job has a parent and a key.
        ServiceError: of a shard.
    """
    if not any(given.keys) and not any(given.shards):
        return await _store_anywhere(registry, given, call)
    names = [""] * len(given.jobs)
    groups = _places(registry, given)
    if len(groups) > 1:
        await _check_that_all_answer([handle for handle, _ in groups if handle is not None])
    for handle, places in groups:
        part = given.part(places)
        try:
            stored = await (
                _store_anywhere(registry, part, call) if handle is None else _store_at(registry, handle, part, call)
            )
        except ServiceError as error:
            raise _stored_in_part(error, names, given.unique_keys) from error
        for place, name in zip(places, stored, strict=True):
            names[place] = name
    return names


def _stored_in_part(error: ServiceError, names: Sequence[str], unique_keys: Sequence[str | None]) -> ServiceError:
    stored = [key for name, key in zip(names, unique_keys, strict=True) if name]
    if not stored:
        return error
    unguarded = stored.count(None)
    return partial_failure(
        error,
        f"{len(stored)} of the {len(names)} jobs are stored, the others are not; make the same call again when its "
        "cause is mended: "
        + (
            f"{unguarded} of these have no unique key, and are stored twice unless it has the same idempotency key"
            if unguarded
            else "by their unique keys, none of these is stored twice while it waits or runs"
        ),
    )


async def _check_that_all_answer(handles: Sequence[ShardHandle]) -> None:
    """Ping all of these shards: a batch is not to be stored in part.

    Raises:
        ShardUnreachable: one does not answer, and nothing was stored.
    """
    results = await asyncio.gather(*(handle.ask(_ping) for handle in handles), return_exceptions=True)
    for handle, result in zip(handles, results, strict=True):
        if isinstance(result, ServiceError):
            raise ShardUnreachable(
                f"no job of the batch was stored, as some belong on shard {handle.name} by their keys: {result}"
            )
        if result is not None:
            raise result


async def _ping(shard: Shard) -> None:
    await shard.ping()


async def _store_at(registry: ShardRegistry, handle: ShardHandle, given: NewJobs[_J], call: StoreCall[_J]) -> list[str]:
    return await _stored_before(registry, given) or await call(handle, given.jobs, given.once)


async def _store_anywhere(registry: ShardRegistry, given: NewJobs[_J], call: StoreCall[_J]) -> list[str]:
    known = await _stored_before(registry, given)
    if known is not None:
        return known
    deadline = time.monotonic() + _PATIENCE_SECONDS
    full: ShardFull | None = None
    for number, handle in enumerate(_in_turn(registry, given.once)):
        if number and time.monotonic() > deadline:
            break
        try:
            return await call(handle, given.jobs, given.once)
        except ShardFull as error:  # so it says itself, and another shard may have room
            log.warning("%s", error)
            full = error
        except ShardUnreachable:  # nothing was stored: another shard may have them
            continue
    raise no_healthy_shards() if full is None else NoHealthyShards(f"no shard takes new jobs at present: {full}")


def _in_turn(registry: ShardRegistry, once: IdempotencyKey | None) -> list[ShardHandle]:
    """Return the shards that may take jobs: in random order, or in that of the key, so that a repeat tries the same."""
    handles = [handle for handle in registry.enqueueable() if handle.is_healthy]
    if len(handles) < 2:
        return handles
    if once is None:
        random.shuffle(handles)
        return handles
    key = once.value.hex()
    return sorted(handles, key=lambda handle: rank(handle.name, key), reverse=True)


async def _stored_before(registry: ShardRegistry, given: NewJobs[_J]) -> list[str] | None:
    """Return the descriptors that an earlier call with the same key got; None if no shard that answers knows of one."""
    queue, once = given.queue, given.once
    if once is None or not once.is_repeat or len(registry) < 2:  # a single one checks by itself
        return None
    for handle, result in await ask_all(registry.healthy(), lambda shard: shard.call_result(queue, once.value)):
        if result is not None:
            return result.names(f"{queue}:s{handle.name}:p", given.priorities)
    return None


def _places(registry: ShardRegistry, given: NewJobs[_J]) -> list[tuple[ShardHandle | None, list[int]]]:
    """Group the places of jobs by the shard that they go to; None stands for any.

    Jobs that may go anywhere go with others: the fewer the calls, the less can be stored in part. They come last.
    """
    handles = registry.enqueueable()
    if not handles:
        raise no_healthy_shards()
    alike: defaultdict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for place, key_and_shard in enumerate(zip(given.keys, given.shards, strict=True)):
        alike[key_and_shard].append(place)
    groups: defaultdict[ShardHandle | None, list[int]] = defaultdict(list)
    for (key, shard), places in alike.items():
        groups[_handle_for(registry, handles, key, shard)] += places
    last = next((handle for handle in groups if handle in handles), None) if None in groups else None
    if last is not None:
        groups[last] += groups.pop(None)
    return sorted(((handle, sorted(places)) for handle, places in groups.items()), key=lambda group: group[0] is last)


def _handle_for(
    registry: ShardRegistry, handles: Sequence[ShardHandle], key: str | None, shard: str | None
) -> ShardHandle | None:
    if shard is None:
        return None if key is None else _home_of(key, handles)
    if key is not None and len(registry) > 1:
        raise EnqueueRejected(
            f"a job has the key {key[:100]!r} and a parent: each selects a shard; leave out the key, or enqueue "
            "the job without a parent and let it answer by an event, for which the other job waits"
        )
    return registry.named(shard)


def _home_of(key: str, handles: Sequence[ShardHandle]) -> ShardHandle:
    """Return the shard that a key selects: when a shard comes or goes, few keys move."""
    if len(handles) == 1:
        return handles[0]
    return max(handles, key=lambda handle: rank(handle.name, key))


def keepers(handles: Iterable[ShardHandle], key: str) -> list[ShardHandle]:
    """Return shards in the order in which they are tried to keep what is no job; those without new jobs come last."""
    return sorted(handles, key=lambda handle: (handle.spec.is_dequeue_only, rank(handle.name, key)))


def rank(shard: str, key: str) -> bytes:
    """Return the rank of a shard for a key (rendezvous hashing)."""
    return hashlib.blake2b(f"{shard}\0{key}".encode(), digest_size=8).digest()
