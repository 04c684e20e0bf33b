"""Samples of the used and free space of the store."""

import asyncio
import os

from pinlater.errors import NoHealthyShards
from pinlater.server.backends.records import StoreSize
from pinlater.server.backends.sqlite.database import SqliteDatabase
from pinlater.server.background.sampling import sample_repeatedly
from pinlater.server.background.store_sampler import StoreSampler
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.shards import MOST_SHARDS
from tests.support.waiting import until


class Shards:
    def __init__(self, **sizes):
        self.found = sizes
        self.asked = 0

    async def sizes(self):
        self.asked += 1
        if not self.found:
            raise NoHealthyShards("no shard answers")
        return self.found


def shown(metrics):
    return tuple(gauge.snapshot().values for gauge in (metrics.store_bytes, metrics.store_free_bytes))


def test_each_shard_is_shown_and_what_is_left_where_that_is_known():
    metrics = Metrics()
    asyncio.run(StoreSampler(Shards(a=StoreSize(10, 90), b=StoreSize(20)), metrics).sample())
    assert shown(metrics) == ({"a": 10, "b": 20}, {"a": 90})


def test_a_shard_that_does_not_answer_is_not_shown():
    metrics, shards = Metrics(), Shards(a=StoreSize(10, 90), b=StoreSize(20, 5))
    watch = StoreSampler(shards, metrics)
    asyncio.run(watch.sample())
    del shards.found["b"]
    asyncio.run(watch.sample())
    assert shown(metrics) == ({"a": 10}, {"a": 90})


def test_of_very_many_shards_some_are_shown():
    metrics = Metrics()
    asyncio.run(StoreSampler(Shards(**{f"s{n}": StoreSize(1) for n in range(MOST_SHARDS + 5)}), metrics).sample())
    assert len(shown(metrics)[0]) == MOST_SHARDS


def test_a_store_that_is_away_ends_nothing():
    shards = Shards()

    async def main():
        task = asyncio.create_task(sample_repeatedly(StoreSampler(shards, Metrics()).sample, 0.001))
        await until(lambda: shards.asked >= 3)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(asyncio.wait_for(main(), 20))


def test_the_files_of_a_store_and_their_disk(tmp_path):
    store = SqliteDatabase(tmp_path / "jobs.db", "OFF")
    writer = store.writer()
    before = store.size()
    writer.execute("CREATE TABLE filler AS SELECT randomblob(1000000) AS body")
    after = store.size()
    assert after.used_bytes - before.used_bytes >= 1_000_000  # in the log, as yet
    disk = os.statvfs(tmp_path)
    assert 0 < after.free_bytes <= disk.f_blocks * disk.f_frsize
    writer.close()
    store.close()
