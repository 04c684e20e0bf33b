"""Shards in Redis or Valkey: Lua scripts over pipelines, two connections for each shard."""

from pinlater.server.backends.redis.channel_network import ServerChannels
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.redis.shard import RedisShard
from pinlater.server.backends.redis.shard_file import read_shards

__all__ = ["RedisEndpoint", "RedisShard", "ServerChannels", "read_shards"]
