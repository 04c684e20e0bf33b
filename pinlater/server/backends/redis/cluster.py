"""Redis Cluster: several masters of one divide the queues of a shard among them, so none of them can be a shard."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from pinlater.server.backends.redis.single_command import say
from pinlater.server.backends.sharded import ShardUnreachable

_ADVICE = (
    "a Redis Cluster of several masters cannot be a shard; in the file of shards, name Redis servers that are not part "
    "of a cluster, as many as you like, each one a shard"
)


async def refuse_cluster(connection: Connection) -> None:
    """Look whether a server has all slots; one that does is as good as a server that is in no cluster.

    Raises:
        RedisConnectionError: it shares them with other masters.
    """
    try:
        masters = await _masters(connection)
    except ResponseError:  # a proxy, or not allowed to us; if it is one, the first call tells
        return
    if masters > 1:
        raise RedisConnectionError(f"it is one of {masters} masters: {_ADVICE}")


def elsewhere(shard: str) -> ShardUnreachable:
    """Return the error for a shard that names another server for a key."""
    return ShardUnreachable(f"shard {shard} cannot serve: another server has what was asked for: {_ADVICE}")


async def _masters(connection: Connection) -> int:
    """Return how many servers have slots; 1 where there are no slots."""
    told = await say(connection, "HELLO")  # anybody may ask for this; it is names and values in turn
    said: dict[Any, Any] = dict(zip(told[::2], told[1::2], strict=True))
    if said.get(b"mode") != b"cluster":
        return 1
    ranges = await say(connection, "CLUSTER", "SLOTS")  # each: first slot, last slot, its master, replicas
    return len({(master[0], master[1]) for _, _, master, *_ in ranges})
