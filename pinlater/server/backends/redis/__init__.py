"""Shards in Redis or Valkey: Lua scripts, pipelines, two connections per shard."""

from pinlater.server.backends.redis.place import Place
from pinlater.server.backends.redis.shard import RedisShard

__all__ = ["Place", "RedisShard"]
