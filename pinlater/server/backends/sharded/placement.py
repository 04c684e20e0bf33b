"""Placement of new jobs on shards."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import compress
from math import inf
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from pinlater.errors import NoHealthyShards, QueueNotFound, ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.protocol.idempotency import derived_key
from pinlater.server.backends.records import IdempotencyKey, Once
from pinlater.server.backends.sharded.active_shards import QueueShards
from pinlater.server.backends.sharded.fan_out import ask_all, no_healthy_shards
from pinlater.server.backends.sharded.partial_failure import partial_failure
from pinlater.server.backends.sharded.rendezvous import rank
from pinlater.server.backends.sharded.shard import CallResult, Shard, ShardFull, ShardUnreachable
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_J = TypeVar("_J", bound=NewJob | JobRecord)

_key = attrgetter("key")
parent_of = attrgetter("parent")
"""Returns the parent of a job; None: it has none."""

TOGETHER = 1000
"""The first children of a call, up to this many, go to their parent's shard, which costs less; others go to any."""

_PATIENCE_SECONDS = 2.5
"""After this time, no further shard is tried. One that accepts connections but stays silent is given up after 2 s."""

StoreCall = Callable[[ShardHandle, Sequence[_J], Once], Awaitable[list[str]]]
"""Stores jobs on a shard, under their part's idempotency key; returns their descriptors."""


class NewJobs(NamedTuple, Generic[_J]):
    """New jobs of one call.

    Attributes:
        queue: the queue of the jobs.
        jobs: the jobs.
        priority_of: returns the priority of a job.
        unique_key_of: returns the unique key of a job; None: it has none.
        once: idempotency key of the call.
        queue_shards: the shards that the queue uses, for jobs that nothing binds to a shard; None: all.
    """

    queue: str
    jobs: Sequence[_J]
    priority_of: Callable[[_J], int]
    unique_key_of: Callable[[_J], str | None]
    once: Once
    queue_shards: QueueShards | None

    @property
    def are_bound(self) -> bool:
        """Whether any job is bound to a shard, by a key, shared or unique, or by a parent."""
        jobs = self.jobs
        return any(map(self.unique_key_of, jobs)) or any(map(_key, jobs)) or any(map(parent_of, jobs))

    @property
    def have_parents(self) -> bool:
        """Whether any of the jobs are children."""
        return any(map(parent_of, self.jobs))

    def keys(self) -> list[str | None]:
        """Return the key that selects each job's shard: its shared key, else its unique key; None: it has neither."""
        return [self.unique_key_of(job) if job.key is None else job.key.text for job in self.jobs]

    def shards(self, *, can_spread: bool) -> list[str | None]:
        """Return the shard of each job's parent, where the job goes unless it has a key; None: any shard will do."""
        parents = list(map(parent_of, self.jobs))
        names = {None if parent is None else parent.descriptor for parent in parents}  # few parents, many children
        shards = {name: JobDescriptor.parse(name).shard for name in names if name is not None}
        end = TOGETHER if can_spread else inf
        return [None if parent is None or parent.position >= end else shards[parent.descriptor] for parent in parents]

    def part(self, places: Sequence[int]) -> NewJobs[_J]:
        """Return the jobs at some places of the call, with a separate idempotency key."""
        if len(places) == len(self.jobs):
            return self
        once = self.once and self.once._replace(value=derived_key(self.once.value, repr(list(places)).encode()))
        return self._replace(jobs=[self.jobs[place] for place in places], once=once)


async def store(registry: ShardRegistry, given: NewJobs[_J], call: StoreCall[_J]) -> list[str]:
    """Store jobs; return their descriptors in the same order.

    A job with a key, shared or else unique, goes to the shard that this key selects and to no other: there it is
    unique, or waits its turn, as long as the set of shards stays the same, however many of them the queue uses. A job
    with a parent and no key goes to its parent's shard if that takes new jobs. Jobs that nothing binds to a shard go
    with others of the call, or to the first shard that takes them; shards that the queue does not use are tried last.

    If there are several parts, their shards are pinged before anything is stored. Parts that are bound to a shard go
    first: if the call fails halfway and is made again, the stored jobs are found by their unique keys, or by the
    idempotency key of the call, and nothing is stored twice. A shard may answer the ping and still refuse its part.
    Then the jobs stored on others are not deleted, as they may be running already, and the error says so.

    When the call is repeated, all healthy shards are first asked whether they have the jobs. A shard that has stored
    them but no longer answers cannot say so, and the jobs are stored again: rather twice than never. Children are not
    stored again in that case: the job that stores them retries.

    Args:
        registry: the shards.
        given: the jobs to store.
        call: stores some of them on a shard.

    Raises:
        NoHealthyShards: no shard takes jobs at present.
        ServiceError: a shard failed.
    """
    if not given.are_bound:
        return await _store_together(registry, None, given, call)
    names = [""] * len(given.jobs)
    groups = await _parts(registry, given)
    if len(groups) > 1:
        await _check_that_all_answer([handle for handle, _ in groups if handle is not None])
    for handle, places in groups:
        part = given.part(places)
        try:
            stored = await _store_part(registry, handle, part, call)
        except ServiceError as error:
            raise _stored_in_part(error, names, list(map(given.unique_key_of, given.jobs))) from error
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
    """Ping these shards, so that a batch is not stored in part.

    Raises:
        ShardUnreachable: one of them failed; nothing was stored.
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


async def _store_part(
    registry: ShardRegistry, handle: ShardHandle | None, part: NewJobs[_J], call: StoreCall[_J]
) -> list[str]:
    """Store one part of a call; jobs whose key has selected a shard that takes no more go where it selects now."""
    once = part.once
    if once is None or handle is None or not handle.spec.is_dequeue_only or not any(part.keys()):
        return await _store_together(registry, handle, part, call)
    known = await _stored_before(registry, part, once, must_know=True)
    return await store(registry, part, call) if known is None else known


async def _store_together(
    registry: ShardRegistry, home: ShardHandle | None, given: NewJobs[_J], call: StoreCall[_J]
) -> list[str]:
    """Store jobs on the shard that they are bound to, or if there is none, on the first one that takes them.

    Children of a parent whose shard takes no new jobs remain a part of their own, so a repeat finds them although the
    server that makes it knows another file of shards.
    """
    if home is not None and home.spec.is_dequeue_only:
        home = None
    once = given.once
    if once is not None and once.is_repeat and len(registry) > 1:  # a single shard checks by itself
        known = await _stored_before(registry, given, once, must_know=home is None and given.have_parents)
        if known is not None:
            return known
    if home is not None:
        return await call(home, given.jobs, once)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    full: ShardFull | None = None
    for number, handle in enumerate(_in_turn(registry, given)):
        if number and time.monotonic() > deadline:
            break
        try:
            return await call(handle, given.jobs, once)
        except ShardFull as error:  # another shard may have space
            log.warning("%s", error)
            full = error
        except ShardUnreachable:  # nothing was stored, so another shard may take the jobs
            continue
    raise no_healthy_shards() if full is None else NoHealthyShards(f"no shard takes new jobs at present: {full}")


def _in_turn(registry: ShardRegistry, given: NewJobs[_J]) -> list[ShardHandle]:
    """Return the healthy shards that take new jobs, those that the queue uses first.

    These are in random order, or in an order given by the call's idempotency key, so that a repeat tries the same ones.
    """
    active, others = given.queue_shards or QueueShards(registry.enqueueable, ())
    handles = [handle for handle in active if handle.is_healthy]
    if len(handles) > 1:
        if given.once is None:
            random.shuffle(handles)
        else:
            key = given.once.value.hex()
            handles.sort(key=lambda handle: rank(handle.name, key), reverse=True)
    if others:
        handles += [handle for handle in others if handle.is_healthy]
    return handles


async def _stored_before(
    registry: ShardRegistry, given: NewJobs[_J], once: IdempotencyKey, *, must_know: bool
) -> list[str] | None:
    """Return the descriptors that an earlier call with the same key got; None if no shard that answers knows of one.

    Raises:
        ShardUnreachable: ``must_know`` is set, and not all shards answer.
    """
    answers = await ask_all(registry.healthy(), lambda shard: _result_on(shard, given.queue, once))
    for handle, result in answers:
        if result is not None:
            return result.names(f"{given.queue}:s{handle.name}:p", map(given.priority_of, given.jobs))
    silent = {handle.name for handle in registry} - {handle.name for handle, _ in answers}
    if must_know and silent:
        raise ShardUnreachable(
            f"shard {min(silent)} does not say whether it has these children already, so none was stored"
        )
    return None


async def _result_on(shard: Shard, queue: str, once: IdempotencyKey) -> CallResult | None:
    """Return what a shard has stored of a call with this key; None: nothing."""
    try:
        return await shard.call_result(queue, once.value)
    except QueueNotFound:
        return None


Places = dict[ShardHandle | None, list[int]]
"""The places of jobs in a call, by the shard that they go to; None stands for any shard that the queue uses."""


async def _parts(registry: ShardRegistry, given: NewJobs[_J]) -> list[tuple[ShardHandle | None, list[int]]]:
    """Divide a call into parts, by shard; None stands for any shard that the queue uses.

    Jobs that may go to any shard go with others, since fewer calls mean fewer partial failures. They come last.
    """
    groups = await _places_before(registry, given) or _places(registry, given, registry.enqueueable)
    last = await _companion(registry, given, groups) if None in groups else None
    if last is not None:
        groups[last] += groups.pop(None)
    return sorted(((handle, sorted(places)) for handle, places in groups.items()), key=lambda group: group[0] is last)


async def _places_before(registry: ShardRegistry, given: NewJobs[_J]) -> Places | None:
    """Return the places of repeated children with keys before some shards took no new jobs; None: not stored so.

    A part that would have the same place now does not tell.
    """
    is_repeat = given.once is not None and given.once.is_repeat
    if not is_repeat or len(registry.enqueueable) == len(registry) or not given.have_parents or not any(given.keys()):
        return None
    groups = _places(registry, given, list(registry))
    now = _places(registry, given, registry.enqueueable) if registry.enqueueable else {}
    telling = {
        handle: given.part(sorted(places))
        for handle, places in groups.items()
        if handle is not None and sorted(places) != sorted(now.get(handle, ()))
    }
    return groups if await _stored_parts(telling) else None


def _places(registry: ShardRegistry, given: NewJobs[_J], handles: Sequence[ShardHandle]) -> Places:
    if not handles:
        raise no_healthy_shards()
    alike: defaultdict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for place, key_and_shard in enumerate(zip(given.keys(), given.shards(can_spread=len(registry) > 1), strict=True)):
        alike[key_and_shard].append(place)
    groups: defaultdict[ShardHandle | None, list[int]] = defaultdict(list)
    for (key, shard), places in alike.items():
        groups[_handle_for(registry, handles, key, shard)] += places
    return groups


async def _companion(registry: ShardRegistry, given: NewJobs[_J], groups: Places) -> ShardHandle | None:
    """Return the shard whose jobs the unbound ones go with: one that the queue uses; None: they go by themselves.

    A repeated call must have the same parts as before, or its jobs would not be found under the keys of the parts. The
    queue may use other shards by now, so what is stored decides.
    """
    bound = [handle for handle in groups if handle is not None]
    able = registry.enqueueable if given.queue_shards is None else given.queue_shards.active
    if given.once is None or not given.once.is_repeat or len(registry) == 1:
        return next((handle for handle in bound if handle in able), None)
    together = {handle: given.part(sorted([*groups[handle], *groups[None]])) for handle in bound}
    if found := await _stored_parts(together):
        return found[0]
    alone = await _stored_parts({handle: given.part(sorted(groups[handle])) for handle in bound})
    return next((handle for handle in bound if handle in able and handle not in alone), None)


async def _stored_parts(parts: Mapping[ShardHandle, NewJobs[_J]]) -> list[ShardHandle]:
    """Return those of the shards that have stored their parts of a repeated call."""

    async def has(handle: ShardHandle, part: NewJobs[_J]) -> bool:
        once = part.once
        return once is not None and await handle.ask(lambda shard: _result_on(shard, part.queue, once)) is not None

    are_stored = await asyncio.gather(*(has(handle, part) for handle, part in parts.items()))
    return list(compress(parts, are_stored))


def _handle_for(
    registry: ShardRegistry, handles: Sequence[ShardHandle], key: str | None, shard: str | None
) -> ShardHandle | None:
    if key is not None:
        return _home_of(key, handles)
    return None if shard is None else registry.named(shard)


def _home_of(key: str, handles: Sequence[ShardHandle]) -> ShardHandle:
    """Return the shard that a key selects; when a shard is added or removed, few keys move."""
    if len(handles) == 1:
        return handles[0]
    return max(handles, key=lambda handle: rank(handle.name, key))


def keepers(handles: Iterable[ShardHandle], key: str) -> list[ShardHandle]:
    """Return shards in the order in which to try storing data other than jobs; dequeue-only shards come last."""
    return sorted(handles, key=lambda handle: (handle.spec.is_dequeue_only, rank(handle.name, key)))
