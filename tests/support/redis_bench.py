"""Redis shards on servers of tests, called without ``await``."""

import asyncio
import time

from pinlater.errors import ShardConnectionFailed
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.store_options import StoreOptions
from tests.support.bench import QUEUE

CLAIM = Claim("host:1:1:worker:1", 30_000)


class RedisBench:
    """Makes shards, and calls them in a loop of its own."""

    def __init__(self):
        self._runner = asyncio.Runner()
        self._shards = []

    def shard(self, service, name="1", **options):
        return self.shard_at(RedisEndpoint(("127.0.0.1", service.port)), name, **options)

    def shard_at(self, endpoint, name="1", channels=None, **options):
        async def make():
            return RedisShard(name, endpoint, StoreOptions(3, **options), channels)

        self._shards.append(self.run(make()))
        return self._shards[-1]

    def run(self, *awaitables):
        async def gather():
            return await asyncio.gather(*awaitables)

        return self._runner.run(gather())[0 if len(awaitables) == 1 else slice(None)]

    def take(self, shard, limit=100, claim=CLAIM, queue=QUEUE):
        return self.run(shard.dequeue_jobs(queue, limit, claim)).jobs

    def count(self, shard, state=PENDING):
        return self.run(shard.count_jobs(QUEUE, JobFilter(state)))

    def until(self, attempt, seconds=30):
        """Try until it raises no error of the service; return its result."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return attempt()
            except ShardConnectionFailed:
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def end(self):
        for shard in self._shards:
            self.run(shard.close())
        self._runner.close()
