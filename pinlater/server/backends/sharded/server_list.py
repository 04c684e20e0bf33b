"""The list of a store's servers, which every shard keeps: a server finds the others by any shard that both reach."""

from __future__ import annotations

from typing import Protocol, cast

from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard_group import ShardGroup


class ServerListShard(Protocol):
    """A shard that keeps such a list."""

    async def meet(self, me: Listener, keep_ms: int) -> list[Listener]:
        """Put a server into the list for a time in milliseconds; return the others."""


async def meet_servers(group: ShardGroup, me: Listener, keep_ms: int) -> list[Listener]:
    """Put a server into the lists of all shards; return the others that are in any of them.

    Raises:
        NoHealthyShards: no shard answered.
    """
    answers = await ask_all(
        group.healthy(),
        lambda shard: cast("ServerListShard", shard).meet(me, keep_ms),
        patience=PATIENCE_SECONDS,
    )
    return list({listener.id: listener for _, found in answers for listener in found}.values())
