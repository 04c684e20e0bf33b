"""The MySQL store: one or several shards, each a database of a MySQL or MariaDB server."""

from pinlater.server.backends.mysql.shard import Options
from pinlater.server.backends.mysql.shard_factory import ShardMaker
from pinlater.server.backends.mysql.shard_file import read_shards

__all__ = ["Options", "ShardMaker", "read_shards"]
