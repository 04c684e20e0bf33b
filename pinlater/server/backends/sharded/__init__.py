"""A store of several shards: what all such stores share, whatever database holds a shard."""

from pinlater.server.backends.sharded.poll_of_all import ShardPoll, poll_all
from pinlater.server.backends.sharded.server_list import meet_servers
from pinlater.server.backends.sharded.shard import (
    MOST_READ_TOGETHER,
    CallResult,
    DuePriorities,
    OutgoingMessage,
    Shard,
    ShardFull,
    ShardSpec,
    ShardUnreachable,
)
from pinlater.server.backends.sharded.shard_clock import ClockRecord, ShardClock
from pinlater.server.backends.sharded.store import ShardedStore
from pinlater.server.backends.sharded.store_clock import ClockUpdater, StoreClock

__all__ = [
    "MOST_READ_TOGETHER",
    "CallResult",
    "ClockRecord",
    "ClockUpdater",
    "DuePriorities",
    "OutgoingMessage",
    "Shard",
    "ShardClock",
    "ShardFull",
    "ShardPoll",
    "ShardSpec",
    "ShardUnreachable",
    "ShardedStore",
    "StoreClock",
    "meet_servers",
    "poll_all",
]
