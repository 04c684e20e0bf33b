"""Jobs with keys on Redis: two servers change jobs of the same few keys at once, on two shards."""

import asyncio

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import PENDING, SUCCEEDED
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.sharded import ShardedStore, ShardSpec
from pinlater.server.backends.store_options import StoreOptions
from tests.support.bench import QUEUE, new_job
from tests.support.key_crowd import KEYS, Crowd

JOBS_OF_A_KEY = 100


def open_store(service):
    store = ShardedStore("redis", lambda spec: RedisShard(spec.name, spec.endpoint, StoreOptions(3)))
    store.update([ShardSpec(name, RedisEndpoint(("127.0.0.1", service.port))) for name in ("1", "2")])
    return store


def jobs_left_over(service):
    """Return the keys of the queue beside its name, its settings and the number of its last job."""
    with service.client() as client:
        names = {key.decode() for key in client.keys("pinlater:{?:*")}
    return {name for name in names if not name.endswith(("}", ":ids"))}


@pytest.mark.parametrize("seed", [1, 2])
def test_two_servers_keep_limits_and_order_and_leave_nothing_behind(redis_service, seed):
    async def run():
        stores = [open_store(redis_service) for _ in range(2)]
        await stores[0].create_queue(QUEUE)
        crowd = Crowd(stores, JOBS_OF_A_KEY, seed=seed)
        await crowd.work()
        assert crowd.faults == []
        assert await stores[0].count_jobs(QUEUE, JobFilter(PENDING)) == 0
        assert await stores[1].count_jobs(QUEUE, JobFilter(SUCCEEDED)) == crowd.jobs
        unfinished = {name for name in jobs_left_over(redis_service) if name.endswith(":turns")}
        assert unfinished == set()
        while await stores[0].count_jobs(QUEUE, JobFilter(SUCCEEDED)):
            await stores[0].collect_finished(0, 0, 1000)
        assert jobs_left_over(redis_service) == set()
        for store in stores:
            await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("key", [JobKey("one", 1), JobKey("one", 1, is_ordered=True), JobKey("one")])
@pytest.mark.parametrize("is_claimed", [True, False])
def test_what_a_server_of_an_earlier_version_has_ended_holds_up_nobody_for_ever(redis_service, key, is_claimed):
    """Such a server changes the record of a job and the sets of its state, but nothing that is kept of keys."""

    async def run():
        store = open_store(redis_service)
        await store.create_queue(QUEUE)
        names = [*await store.enqueue_jobs(QUEUE, [new_job(key=key) for _ in range(2)])]
        if is_claimed:
            await store.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:1", 120_000))
        first = JobDescriptor.parse(names[0])
        with redis_service.client() as client:
            [records] = client.keys("pinlater:{?:*:jobs")
            [member] = [name for name in client.hkeys(records) if int(name[1:]) == first.local_id]
            client.hset(records, member, b"2" + client.hget(records, member)[1:])
            for of_state in (b"claims", b"p1"):
                client.zrem(records.removesuffix(b"jobs") + of_state, member)
        names += await store.enqueue_jobs(QUEUE, [new_job(key=key)])
        found = await store.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:2", 120_000))
        assert [job.descriptor for job in found.jobs] == names[1:2]
        await store.close()

    asyncio.run(run())


def test_a_deleted_queue_leaves_no_keys_behind(redis_service):
    async def run():
        store = open_store(redis_service)
        await store.create_queue(QUEUE)
        await store.enqueue_jobs(QUEUE, [new_job(key=key) for key in KEYS for _ in range(3)])
        assert {name.rpartition(":")[2] for name in jobs_left_over(redis_service)} >= {"turns", "job_keys"}
        await store.delete_queue(QUEUE)
        assert jobs_left_over(redis_service) == set()
        await store.close()

    asyncio.run(run())
