"""Jobs in the shards of a fleet, and shards that are ill."""

from pinlater.errors import (
    ShardConnectionFailed,
)
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, new_job

CLAIM = Claim("host:1:1:worker:1", 1000)

PENDING = JobFilter(0)


def fill(fleet, *per_shard):
    """Put so many jobs straight onto each shard."""
    return [
        name
        for shard, count in zip(fleet.shards.values(), per_shard, strict=True)
        for name in fleet.run(shard.enqueue_jobs(QUEUE, [new_job() for _ in range(count)]))
    ]


def make_ill(fleet, name):
    fleet.shards[name].error = ShardConnectionFailed("gone")
    while fleet.unhealthy_shards == 0:
        fleet.count_jobs(QUEUE, PENDING)
