"""Shards in MySQL or MariaDB, each in its own database."""

from pinlater.server.backends.mysql.shard_factory import MysqlShardFactory
from pinlater.server.backends.mysql.shard_file import read_shards

__all__ = ["MysqlShardFactory", "read_shards"]
