"""Statistics: added on one shard, always the same while it can be reached; read from all shards and summed."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.errors import ShardConnectionFailed
from pinlater.server.backends.sharded.fan_out import ask_all, no_healthy_shards
from pinlater.server.backends.sharded.placement import keepers
from pinlater.server.backends.sharded.shard import ShardUnreachable
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.statistics import Counts, StatisticsEntry, StatisticsKey, StatisticsQuery, merged

SHARDS = 3
"""How many shards, first by rank, may get statistics: only the first that can be reached, so a period has few rows."""

_PLACE = "statistics"


async def add(group: ShardGroup, entries: Sequence[StatisticsEntry]) -> None:
    """Add counts on the first shard that can be reached; if its answer is lost, the counts may be lost as well.

    Raises:
        NoHealthyShards: none can be reached.
        ServiceError: a shard refused.
    """
    for handle in keepers(group.healthy(), _PLACE)[:SHARDS]:
        try:
            return await handle.ask(lambda shard: shard.add_statistics(entries))
        except ShardUnreachable:
            continue
        except ShardConnectionFailed:  # added on another shard as well, they might count twice
            return None
    raise no_healthy_shards()


async def read(group: ShardGroup, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
    """Return the sums over all shards, up to ``limit`` entries."""
    answers = await ask_all(group.healthy(), lambda shard: shard.read_statistics(which, limit))
    sums: dict[StatisticsKey, Counts] = {}
    for _, entries in answers:
        for key, counts in entries:
            sums[key] = merged(sums[key], counts) if key in sums else counts
    return [StatisticsEntry(key, sums[key]) for key in sorted(sums)[:limit]]
