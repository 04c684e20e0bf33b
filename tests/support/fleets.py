"""Sharded stores that several servers share, as each of them has it."""

from pinlater.server.backends.mysql import MysqlShardFactory
from pinlater.server.backends.poll_intervals import FREQUENT_POLLS
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.sharded import ShardedStore, ShardSpec
from pinlater.server.backends.store_options import StoreOptions
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix
from tests.support.redis_service import RedisService


def mysql_fleets(_folder, names="12", pauses=FREQUENT_POLLS):
    """Return what makes a store of shards with these names, each time for another server, and what ends all."""
    endpoint, prefix = endpoint_of(shared_service()), fresh_prefix()

    def fleet():
        factory = MysqlShardFactory(StoreOptions(3), connections=8, database_prefix=prefix)
        fleet = ShardedStore("mysql", factory, poll_intervals=pauses)
        fleet.update([ShardSpec(name, endpoint) for name in names])
        return fleet

    return fleet, lambda: None


def redis_fleets(folder, names="12", pauses=FREQUENT_POLLS):
    """Return what ``mysql_fleets`` does."""
    service = RedisService(folder / "redis")
    endpoint = RedisEndpoint(("127.0.0.1", service.port))

    def fleet():
        fleet = ShardedStore(
            "redis",
            lambda spec: RedisShard(spec.name, spec.endpoint, StoreOptions(3)),
            poll_intervals=pauses,
        )
        fleet.update([ShardSpec(name, endpoint) for name in names])
        return fleet

    return fleet, service.close
