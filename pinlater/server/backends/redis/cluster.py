"""Redis Cluster: several masters would split the keys of a shard between them, so none of them can be a shard."""

from __future__ import annotations

from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from pinlater.server.backends.redis.resp import RespConnection
from pinlater.server.backends.sharded import ShardUnreachable

_ADVICE = (
    "a Redis Cluster with several masters cannot be a shard; list Redis servers that are not part of a cluster in the "
    "shard file, each one as a shard"
)


async def reject_cluster(connection: RespConnection) -> None:
    """Reject a server that shares the hash slots of a cluster; the only master of a cluster has all and is accepted.

    Raises:
        RedisConnectionError: there are other masters.
    """
    try:
        masters = await _count_masters(connection)
    except ResponseError:  # a proxy, or the user lacks the permission; if it is a cluster, the first call fails
        return
    if masters > 1:
        raise RedisConnectionError(f"it is one of {masters} masters: {_ADVICE}")


def key_moved(shard: str) -> ShardUnreachable:
    """Return the error for a shard that redirects a key to another server."""
    return ShardUnreachable(f"shard {shard} cannot serve: another server holds the key: {_ADVICE}")


async def _count_masters(connection: RespConnection) -> int:
    """Return how many masters have slots; 1 for a server outside a cluster."""
    hello = await connection.call("HELLO")  # every user may send this; the answer alternates names and values
    properties: dict[Any, Any] = dict(zip(hello[::2], hello[1::2], strict=True))
    if properties.get(b"mode") != b"cluster":
        return 1
    ranges = await connection.call("CLUSTER", "SLOTS")  # each: first slot, last slot, its master, replicas
    return len({(master[0], master[1]) for _, _, master, *_ in ranges})
