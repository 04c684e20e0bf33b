"""Changes of up to a limited number of jobs: shard after shard, until the limit is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pinlater.errors import QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.model.plural import plural
from pinlater.server.backends.records import Once
from pinlater.server.backends.sharded.fan_out import ask_in_turn
from pinlater.server.backends.sharded.partial_failure import partial_failure
from pinlater.server.backends.sharded.shard import Shard, ShardUnreachable
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry


class LimitedChange(NamedTuple):
    """How many jobs of a queue a call may change, over all shards."""

    queue: str
    limit: int
    once: Once


Change = Callable[[Shard, int], Awaitable[int]]
"""Changes up to a number of jobs on a shard; returns how many, including earlier calls with the same key."""


async def up_to(registry: ShardRegistry, which: LimitedChange, change: Change) -> int:
    """Change jobs up to the limit; return how many, including those that earlier calls with the same key changed.

    Raises:
        ShardConnectionFailed: it is unknown what a shard has done; the call may be sent again with its key.
        ServiceError: see ``ask_in_turn``.
    """
    before = await _changed_before(registry, which)
    left = which.limit - sum(before.values())

    async def ask(shard: Shard) -> int:
        known = before.get(shard.name, 0)
        return await change(shard, known + left) - known

    def is_enough(changed: int) -> bool:
        nonlocal left
        left -= changed
        return left <= 0

    if left > 0 or not before:
        # With a key, a lost answer fails the call, so that it is repeated. Without one, a repeat changes more jobs.
        passing = ShardConnectionFailed if which.once is None else ShardUnreachable
        try:
            await ask_in_turn(registry.healthy(), ask, is_enough, passing=passing, is_long=True)
        except ServiceError as error:
            if left == which.limit:
                raise
            raise partial_failure(error, f"{plural(which.limit - left)} changed on other shards") from error
    return which.limit - left


async def _changed_before(registry: ShardRegistry, which: LimitedChange) -> dict[str, int]:
    """Return how many jobs an earlier call with the same key has changed, by shard."""
    queue, _, once = which
    if once is None or not once.is_repeat:
        return {}

    async def read(handle: ShardHandle) -> tuple[str, int]:
        try:
            result = await handle.ask(lambda shard: shard.call_result(queue, once.value))
        except QueueNotFound:
            return handle.name, 0
        except ShardConnectionFailed as error:
            raise ShardConnectionFailed(
                f"shard {handle.name} does not answer, and may have done a part of this before: {error}"
            ) from error
        return handle.name, 0 if result is None else result.number

    return {name: number for name, number in await asyncio.gather(*map(read, registry)) if number}
