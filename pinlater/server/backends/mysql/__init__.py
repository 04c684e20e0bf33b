"""Shards in MySQL or MariaDB: each is a database of its own."""

from pinlater.server.backends.mysql.options import MysqlOptions
from pinlater.server.backends.mysql.shard_factory import MysqlShardFactory
from pinlater.server.backends.mysql.shard_file import read_shards

__all__ = ["MysqlOptions", "MysqlShardFactory", "read_shards"]
