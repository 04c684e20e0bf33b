"""Shards in Redis or Valkey: Lua scripts, pipelines, two connections per shard."""

from pinlater.server.backends.redis.endpoint import Place
from pinlater.server.backends.redis.shard import RedisShard
from pinlater.server.backends.redis.shard_file import read_shards

__all__ = ["Place", "RedisShard", "read_shards"]
