"""The list of a store's servers, kept on a few shards: two servers find each other if both reach any one of these."""

from __future__ import annotations

from operator import methodcaller

from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle

LISTS = 3
"""How many shards keep the list, the first by name; a server writes to no more, however many there are."""


async def meet_servers(group: ShardGroup, me: Listener, keep_ms: int) -> list[Listener]:
    """Put a server into the lists of shards; return the other servers found in any of them.

    Raises:
        NoHealthyShards: none of these shards answered.
    """
    by_name = sorted(group.registry, key=lambda handle: (len(handle.name), handle.name))
    meet = methodcaller("meet", me, keep_ms)  # a verb of the shards of MySQL alone
    answers: list[tuple[ShardHandle, list[Listener]]] = await ask_all(by_name[:LISTS], meet, patience=PATIENCE_SECONDS)
    return list({listener.id: listener for _, found in answers for listener in found}.values())
