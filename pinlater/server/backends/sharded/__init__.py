"""A store of several shards: what all stores with shards share, whatever a shard is kept in."""

from pinlater.server.backends.sharded.shard import CallResult, Front, Shard, ShardSpec, ShardUnreachable
from pinlater.server.backends.sharded.shard_clock import ShardClock, Visit
from pinlater.server.backends.sharded.store import ShardedStore
from pinlater.server.backends.sharded.store_clock import StoreClock

__all__ = [
    "CallResult",
    "Front",
    "Shard",
    "ShardClock",
    "ShardSpec",
    "ShardUnreachable",
    "ShardedStore",
    "StoreClock",
    "Visit",
]
