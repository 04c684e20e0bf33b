"""Makes shards: those on one server share its connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pinlater.server.backends.mysql.endpoint import Place
from pinlater.server.backends.mysql.pool import Pool
from pinlater.server.backends.mysql.shard import MysqlShard, Options
from pinlater.server.backends.sharded import ShardSpec

DATABASE_PREFIX = "pinlater_"
"""In front of a shard's name: the name of its database."""


class ShardMaker:
    """Makes the shards of one store.

    Args:
        options: of all shards.
        connections: most connections to one server.
        database_prefix: see ``DATABASE_PREFIX``.
    """

    def __init__(self, options: Options, *, connections: int, database_prefix: str = DATABASE_PREFIX) -> None:
        self._options = options
        self._connections = connections
        self._database_prefix = database_prefix
        self._pools: dict[Place, Pool] = {}
        self._users: Counter[Place] = Counter()

    @property
    def pools(self) -> Collection[Pool]:
        """The pools of connections, one for each server."""
        return self._pools.values()

    def __call__(self, spec: ShardSpec) -> MysqlShard:
        """Make a shard; it connects when it is asked for something."""
        place = spec.place
        assert isinstance(place, Place)
        if place not in self._pools:
            self._pools[place] = Pool(place, self._connections)
        self._users[place] += 1
        database = f"{self._database_prefix}{spec.name}"
        return MysqlShard(spec.name, self._pools[place], database, self._options, lambda: self._let_go(place))

    def _let_go(self, place: Place) -> None:
        self._users[place] -= 1
        if not self._users[place]:
            self._pools.pop(place).close()
