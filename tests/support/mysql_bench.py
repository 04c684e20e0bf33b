"""Parts of the MySQL store, on the server that the tests share or on one of their own."""

import itertools
import os

from pinlater.server.backends.mysql import MysqlOptions, MysqlShardFactory
from pinlater.server.backends.mysql.endpoint import MysqlEndpoint
from pinlater.server.backends.sharded import ShardedStore, ShardSpec

_numbers = itertools.count(1)


def endpoint_of(service, **changes):
    return MysqlEndpoint(service.host, service.port, service.user, service.password)._replace(**changes)


def fresh_prefix():
    """Return a prefix of database names that nobody else has."""
    return f"test{os.getpid()}_{next(_numbers)}_"


def make_fleet(endpoints, clock, *, prefix, connections=8, **options):
    """Return a store with a shard at each of the endpoints; to be made in the loop that uses it."""
    factory = MysqlShardFactory(MysqlOptions(3, clock, **options), connections=connections, database_prefix=prefix)
    fleet = ShardedStore("mysql", factory)
    fleet.update([ShardSpec(str(number), endpoint) for number, endpoint in enumerate(endpoints, 1)])
    return fleet
