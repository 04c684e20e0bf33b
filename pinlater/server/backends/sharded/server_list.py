"""The list of a store's servers, kept on a few shards: two servers find each other if both reach any one of these."""

from __future__ import annotations

from typing import Protocol, cast

from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard_group import ShardGroup

LISTS = 3
"""How many shards keep the list, the first by name; a server writes to no more, however many there are."""


class ServerListShard(Protocol):
    """A shard that can keep a list of servers."""

    async def meet(self, me: Listener, keep_ms: int) -> list[Listener]:
        """Put a server into the list for ``keep_ms``; return the others."""


async def meet_servers(group: ShardGroup, me: Listener, keep_ms: int) -> list[Listener]:
    """Put a server into the lists of shards; return the other servers found in any of them.

    Raises:
        NoHealthyShards: none of these shards answered.
    """
    by_name = sorted(group.registry, key=lambda handle: (len(handle.name), handle.name))
    answers = await ask_all(
        by_name[:LISTS],
        lambda shard: cast("ServerListShard", shard).meet(me, keep_ms),
        patience=PATIENCE_SECONDS,
    )
    return list({listener.id: listener for _, found in answers for listener in found}.values())
