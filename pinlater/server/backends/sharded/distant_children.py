"""Children on other shards than their parents: those whose key puts them there, and most of a very large call's.

The parent's shard records which other shards have such children, as messages to the parent that no job reads. It does
so before the first child is stored there, so a cancellation of the parent finds all children. A second check, after the
children are committed, notices a cancellation since the first. If the server dies before that check, the call that
stores the children is made again, and checks again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from pinlater.errors import ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.messages import Message, Parent
from pinlater.model.status import CANCELLED_WITH_PARENT
from pinlater.server.backends.records import Once
from pinlater.server.backends.sharded import by_descriptor, placement
from pinlater.server.backends.sharded.placement import NewJobs, StoreCall, parent_of
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry
from pinlater.server.backends.store import parent_refused

_J = TypeVar("_J", bound=NewJob | JobRecord)

_SHARDS = "children on"
"""Name of the messages to a parent whose ids are the shards on which it has children."""


async def store(group: ShardGroup, given: NewJobs[_J], call: StoreCall[_J]) -> list[str]:
    """Store new jobs of which some are children; see ``placement.store``.

    Args:
        group: the shards.
        given: the jobs to store.
        call: stores some of them on a shard.

    Raises:
        EnqueueRejected: a parent does not exist, has finished or is asked to stop.
        ShardConnectionFailed, UnknownError: a parent's descriptor names a shard that does not exist.
        NoHealthyShards: no shard takes jobs at present.
        ServiceError: a shard failed.
    """

    async def admit_and_store(handle: ShardHandle, some: Sequence[_J], part: Once) -> list[str]:
        await admit(group.registry, map(parent_of, some), handle.name)
        return await call(handle, some, part)

    stored = await placement.store(group.registry, given, admit_and_store)
    await withdraw_refused(group, list(map(parent_of, given.jobs)), stored)
    return stored


def _shards_by_name(parents: Iterable[Parent | None]) -> dict[str, str]:
    """Return the shards of parents, by descriptor; each is parsed once, as few parents have many children."""
    names = {parent.descriptor for parent in parents if parent is not None}
    return {name: JobDescriptor.parse(name).shard for name in names}


async def admit(registry: ShardRegistry, parents: Iterable[Parent | None], shard: str) -> None:
    """Record with those parents of new jobs that are on other shards that they have children on ``shard``.

    Raises:
        EnqueueRejected: a parent does not exist, has finished or is asked to stop.
        ShardConnectionFailed, UnknownError: a parent's descriptor names a shard that does not exist.
        ServiceError: a shard failed.
    """
    named = sorted({parent.descriptor for parent in parents if parent is not None})
    distant = [parent for parent in map(JobDescriptor.parse, named) if parent.shard != shard]
    await asyncio.gather(*(_admit(registry, parent, shard) for parent in distant))


async def _admit(registry: ShardRegistry, parent: JobDescriptor, shard: str) -> None:
    note, handle = Message(_SHARDS, shard, b""), registry.named(parent.shard)
    is_noted, is_able = await asyncio.gather(
        handle.ask(lambda at: at.send_message(parent, note)), _is_able(handle, parent)
    )
    if not (is_noted and is_able):
        raise parent_refused(str(parent))


async def withdraw_refused(group: ShardGroup, parents: Sequence[Parent | None], stored: Sequence[str]) -> None:
    """Cancel new jobs whose parents, on other shards, were cancelled while the jobs were stored.

    Args:
        group: the shards.
        parents: parent of each job that was stored.
        stored: descriptors of these jobs.

    Raises:
        EnqueueRejected: a parent was cancelled.
        ServiceError: a shard failed.
    """
    shards, children = _shards_by_name(parents), defaultdict[str, list[JobDescriptor]](list)
    for parent, name in zip(parents, stored, strict=True):
        if parent is not None and (job := JobDescriptor.parse(name)).shard != shards[parent.descriptor]:
            children[parent.descriptor].append(job)
    for told, jobs in children.items():
        if not await _is_able(group.registry.named(shards[told]), JobDescriptor.parse(told)):
            await by_descriptor.cancel(group, jobs[0].queue, jobs, CANCELLED_WITH_PARENT)
            raise parent_refused(told)


async def _is_able(handle: ShardHandle, parent: JobDescriptor) -> bool:
    """Return whether a parent was not cancelled; a parent that has finished otherwise leaves its children alone."""
    [record] = await handle.ask(lambda shard: shard.lookup_jobs([parent]))
    return record is None or not record.is_cancelled


async def children_to_cancel(group: ShardGroup, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
    """Return up to ``limit`` children to cancel, from the jobs' shards and others that have children of them.

    If some of these shards fail, or are no longer there, that is an error only once the others have no more children:
    these must not run on because of it.

    Raises:
        ShardConnectionFailed, UnknownError: a shard that the descriptors name, or that has had children of the jobs,
            does not exist.
        ServiceError: a shard failed.
    """
    names = {parent.shard for parent in parents}
    registry = group.registry
    known = await asyncio.gather(*(_shards_of_children(registry.named(name), parents) for name in names))
    names.update(*known)
    handles = [handle for handle in map(registry.find, names) if handle is not None]
    answers = await asyncio.gather(
        *(handle.ask(lambda shard: shard.children_to_cancel(parents, limit)) for handle in handles),
        return_exceptions=True,
    )
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    found = list(chain.from_iterable(answer for answer in answers if not isinstance(answer, BaseException)))
    if errors and not (found and all(isinstance(error, ServiceError) for error in errors)):
        raise errors[0]
    if not found and (gone := names - {handle.name for handle in handles}):
        raise registry.missing(
            min(gone),
            f"shard {min(gone)}, which has had children of these jobs, is not in the file of shards; their children on "
            "other shards are cancelled",
        )
    return found[:limit]


async def _shards_of_children(handle: ShardHandle, parents: Sequence[JobDescriptor]) -> set[str]:
    own = [parent for parent in parents if parent.shard == handle.name]
    return await handle.ask(lambda shard: shard.message_ids(own, _SHARDS))
