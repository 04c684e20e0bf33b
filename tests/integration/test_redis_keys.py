"""Jobs with keys on Redis: two servers change jobs of the same few keys at once, on two shards."""

import asyncio
import itertools
import random
from collections import Counter, defaultdict

import pytest

from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import PENDING, SUCCEEDED
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.sharded import ShardedStore, ShardSpec
from tests.support.bench import QUEUE, new_job

KEYS = [
    *[JobKey(f"ordered {number}", 1, is_ordered=True) for number in range(4)],
    JobKey("one", 1),
    JobKey("three", 3),
    JobKey("any"),
    None,
]
JOBS_OF_A_KEY = 100
HOLDERS = 24
FAILING_SHARE = 0.1


class Crowd:
    """Producers and holders, each call at one of the stores, and what must not have been."""

    def __init__(self, stores):
        self._stores = stores
        self._claims = itertools.count(1)
        self._held = Counter()
        self._done = defaultdict(set)
        self.faults = []

    @property
    def is_over(self):
        return sum(map(len, self._done.values())) == len(KEYS) * JOBS_OF_A_KEY

    async def produce(self, key):
        for number in range(0, JOBS_OF_A_KEY, 2):
            jobs = [new_job(b"%d %d" % (KEYS.index(key), at), key=key, attempts=1000) for at in (number, number + 1)]
            await random.choice(self._stores).enqueue_jobs(QUEUE, jobs)

    async def hold(self, lot):
        while not self.is_over:
            claim = Claim(f"host:1:1:worker:{next(self._claims)}", 120_000)
            found = await lot.choice(self._stores).dequeue_jobs(QUEUE, lot.choice([1, 4]), claim)
            for job in found.jobs:
                self._begin(*map(int, job.body.split()))
            await asyncio.sleep(lot.choice([0, 0.002]))
            for job in found.jobs:
                await self._end(lot, claim, job)

    def _begin(self, place, number):
        key = KEYS[place]
        self._held[place] += 1
        if key is not None and key.max_running is not None and self._held[place] > key.max_running:
            self.faults.append(f"{self._held[place]} of {key} were held at once")
        if key is not None and key.is_ordered and self._done[place] != set(range(number)):
            self.faults.append(f"{number} of {key} was handed out out of turn")

    async def _end(self, lot, claim, job):
        place, number = map(int, job.body.split())
        self._held[place] -= 1
        acks = [StoredAck(JobDescriptor.parse(job.descriptor), claim.descriptor, "", lot.choice([0, 5]), False)]
        is_success = lot.random() >= FAILING_SHARE
        if is_success:
            self._done[place].add(number)
        done, failed = (acks, []) if is_success else ([], acks)
        await lot.choice(self._stores).ack_dequeued_jobs(QUEUE, done, failed)


def open_store(service):
    store = ShardedStore("redis", lambda spec: RedisShard(spec.name, spec.endpoint, priority_levels=3), has_keys=True)
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
        crowd = Crowd(stores)
        holders = [crowd.hold(random.Random(seed * 1000 + number)) for number in range(HOLDERS)]
        await asyncio.gather(*map(crowd.produce, KEYS), *holders)
        assert crowd.faults == []
        assert await stores[0].count_jobs(QUEUE, JobFilter(PENDING)) == 0
        assert await stores[1].count_jobs(QUEUE, JobFilter(SUCCEEDED)) == len(KEYS) * JOBS_OF_A_KEY
        unfinished = {name for name in jobs_left_over(redis_service) if name.endswith(":turns")}
        assert unfinished == set()
        while await stores[0].count_jobs(QUEUE, JobFilter(SUCCEEDED)):
            await stores[0].collect_finished(0, 0, 1000)
        assert jobs_left_over(redis_service) == set()
        for store in stores:
            await store.close()

    asyncio.run(run())


def test_what_a_server_of_an_earlier_version_has_ended_holds_up_nobody_for_ever(redis_service):
    """Such a server changes the record of a job and the sets of its state, but nothing that is kept of keys."""

    async def run():
        store = open_store(redis_service)
        await store.create_queue(QUEUE)
        names = [*await store.enqueue_jobs(QUEUE, [new_job(key=JobKey("one", 1)) for _ in range(2)])]
        await store.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:1", 120_000))
        first = JobDescriptor.parse(names[0])
        with redis_service.client() as client:
            [records] = client.keys("pinlater:{?:*:jobs")
            [member] = [name for name in client.hkeys(records) if int(name[1:]) == first.local_id]
            client.hset(records, member, b"2" + client.hget(records, member)[1:])
            client.zrem(records.removesuffix(b"jobs") + b"claims", member)
        names += await store.enqueue_jobs(QUEUE, [new_job(key=JobKey("one", 1))])
        found = await store.dequeue_jobs(QUEUE, 9, Claim("host:1:1:worker:2", 120_000))
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
