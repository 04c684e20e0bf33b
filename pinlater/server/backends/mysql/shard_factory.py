"""Creates MySQL shards; shards on the same server share its connection pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pinlater.server.backends.mysql.connection import MysqlEndpoint
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.shard import MysqlShard
from pinlater.server.backends.sharded import ShardSpec
from pinlater.server.backends.store_options import StoreOptions


class MysqlShardFactory:
    """Creates the shards of one store.

    Args:
        options: options of all shards.
        connections: most connections to one server.
        database_prefix: a shard's database is named this plus the shard's name.
    """

    def __init__(self, options: StoreOptions, *, connections: int, database_prefix: str) -> None:
        self._options = options
        self._connections = connections
        self._database_prefix = database_prefix
        self._pools: dict[MysqlEndpoint, MysqlPool] = {}
        self._users: Counter[MysqlEndpoint] = Counter()

    @property
    def pools(self) -> Collection[MysqlPool]:
        """The connection pools, one per server."""
        return self._pools.values()

    def __call__(self, spec: ShardSpec) -> MysqlShard:
        """Create a shard; it connects at its first call."""
        endpoint = spec.endpoint
        assert isinstance(endpoint, MysqlEndpoint)
        if endpoint not in self._pools:
            self._pools[endpoint] = MysqlPool(endpoint, self._connections)
        self._users[endpoint] += 1
        database = f"{self._database_prefix}{spec.name}"
        return MysqlShard(spec.name, self._pools[endpoint], database, self._options, lambda: self._release(endpoint))

    def _release(self, endpoint: MysqlEndpoint) -> None:
        self._users[endpoint] -= 1
        if not self._users[endpoint]:
            self._pools.pop(endpoint).close()
