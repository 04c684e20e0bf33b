"""Ways to split a verb over shards: each turns a verb of a shard into a verb of the sharded store.

Only ``Store`` declares what a verb takes: arguments that a split does not need are passed to the shards unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from operator import methodcaller
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from pinlater.errors import ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.server.backends.records import Once
from pinlater.server.backends.sharded import by_descriptor, distant_children, limited_changes, placement
from pinlater.server.backends.sharded.fan_out import ask_all
from pinlater.server.backends.sharded.shard import Shard
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.store import Store

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")
_J = TypeVar("_J", bound=NewJob | JobRecord)


class Sharded(Protocol):
    """A store with shards."""

    group: ShardGroup


StoreVerb = Callable[Concatenate[Store, _P], Coroutine[Any, Any, _T]]
"""A verb as ``Store`` declares it, and as a shard carries it out: arguments, and result."""

ShardedVerb = Callable[Concatenate[Sharded, _P], Coroutine[Any, Any, _T]]
"""The same verb of the sharded store."""


def of_group(
    verb: StoreVerb[_P, _T], carry_out: Callable[Concatenate[ShardGroup, _P], Awaitable[_T]]
) -> ShardedVerb[_P, _T]:
    """Carry out a verb with a function that takes the group of shards and the verb's arguments."""

    @wraps(verb)
    async def call(store: Sharded, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await carry_out(store.group, *args, **kwargs)

    return call


def on_all_shards(
    verb: StoreVerb[_P, _T],
    merge: Callable[[list[_T]], _R],
    *,
    keeps_refusals: bool = False,
    adapt: Callable[[ShardHandle, dict[str, Any]], dict[str, Any]] = lambda _, given: given,
) -> ShardedVerb[_P, _R]:
    """Call all healthy shards at once, and merge the answers of those that answer; see ``ask_all``.

    Args:
        verb: the verb of the store.
        merge: merges the answers.
        keeps_refusals: raise a shard's refusal only if the others had nothing to do, since otherwise their results
            would be lost. For verbs that are called periodically.
        adapt: returns the keyword arguments for one shard.
    """
    name = verb.__name__

    @wraps(verb)
    async def call(store: Sharded, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        refusals: list[ServiceError] | None = [] if keeps_refusals else None
        handles = store.group.healthy()
        calls = {handle.name: methodcaller(name, *args, **adapt(handle, kwargs)) for handle in handles}
        answers = await ask_all(handles, lambda shard: calls[shard.name](shard), refusals=refusals)
        done = merge([answer for _, answer in answers])
        if refusals and not done:
            raise refusals[0]
        return done

    return call


def at_job(verb: StoreVerb[Concatenate[JobDescriptor, _P], _T]) -> ShardedVerb[Concatenate[JobDescriptor, _P], _T]:
    """Call the shard that has the job."""
    name = verb.__name__

    @wraps(verb)
    async def call(store: Sharded, job: JobDescriptor, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        found: _T = await store.group.registry.named(job.shard).ask(methodcaller(name, job, *args, **kwargs))
        return found

    return call


def at_named_jobs(verb: StoreVerb[_P, int]) -> ShardedVerb[_P, int]:
    """Give each shard those of ``jobs`` whose descriptors name it, and add up the results."""
    name, signature = verb.__name__, inspect.signature(verb)

    @wraps(verb)
    async def call(store: Sharded, /, *args: _P.args, **kwargs: _P.kwargs) -> int:
        given = _by_name(signature, args, kwargs)

        def change(shard: Shard, own: list[JobDescriptor]) -> Awaitable[int]:
            return cast("Awaitable[int]", getattr(shard, name)(**(given | {"jobs": own})))

        return await by_descriptor.count(store.group.registry, given["jobs"], change)

    return call


def until_limit(verb: StoreVerb[_P, int]) -> ShardedVerb[_P, int]:
    """Call one shard after the other, until ``limit`` jobs are changed in all."""
    name, signature = verb.__name__, inspect.signature(verb)

    @wraps(verb)
    async def call(store: Sharded, /, *args: _P.args, **kwargs: _P.kwargs) -> int:
        given = _by_name(signature, args, kwargs)

        def change(shard: Shard, left: int) -> Awaitable[int]:
            return cast("Awaitable[int]", getattr(shard, name)(**(given | {"limit": left})))

        which = limited_changes.LimitedChange(given["queue"], given["limit"], given.get("once"))
        return await limited_changes.up_to(store.group.registry, which, change)

    return call


def at_placement(
    verb: StoreVerb[_P, list[str]],
    priority_of: Callable[[_J], int],
    unique_key_of: Callable[[_J], str | None],
) -> ShardedVerb[_P, list[str]]:
    """Store each of ``jobs`` on the shard where ``placement`` puts it."""
    name = verb.__name__

    @wraps(verb)
    def call(
        store: Sharded, /, queue: str, jobs: Sequence[_J], *, once: Once = None, **options: Any
    ) -> Coroutine[Any, Any, list[str]]:
        group = store.group

        def store_at(handle: ShardHandle, some: Sequence[_J], part: Once) -> Awaitable[list[str]]:
            return group.ask_owner(handle, queue, lambda shard: getattr(shard, name)(queue, some, once=part, **options))

        given = placement.NewJobs(queue, jobs, priority_of, unique_key_of, once, group.active_shards.of(queue))
        if any(map(placement.parent_of, jobs)):
            return distant_children.store(group, given, store_at)
        return placement.store(group.registry, given, store_at)

    return cast("ShardedVerb[_P, list[str]]", call)


def makes_due(verb: ShardedVerb[_P, _T], if_result: Callable[[_T], bool] = lambda _: True) -> ShardedVerb[_P, _T]:
    """Drop the cached due priorities of a queue, the verb's first argument, when the verb may have made jobs due.

    Args:
        verb: the verb of the sharded store.
        if_result: tells from the result whether it has made jobs due. If the verb fails, it may have.
    """

    @wraps(verb)
    async def call(store: Sharded, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        queue = cast("str", args[0] if args else kwargs["queue"])
        due_priorities = store.group.due_priorities
        with due_priorities.trying(queue):
            result = await verb(store, *args, **kwargs)
        if if_result(result):
            due_priorities.forget(queue)
        return result

    return call


def makes_due_in(verb: ShardedVerb[_P, _T], queues_of: Callable[[_T], Iterable[str]]) -> ShardedVerb[_P, _T]:
    """Drop the cached due priorities of the queues that a verb's result names, as it has made jobs of these due."""

    @wraps(verb)
    async def call(store: Sharded, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        result = await verb(store, *args, **kwargs)
        for queue in queues_of(result):
            store.group.due_priorities.forget(queue)
        return result

    return call


def _by_name(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    given = signature.bind(None, *args, **kwargs).arguments
    del given["self"]
    return given
