"""What jobs cost beside others that wait for the rate of their key, on the stores that servers share."""

import itertools
from collections import Counter

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.records import Claim
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.mysql_bench import with_servers
from tests.support.redis_bench import RedisBench

KEYS = [None, JobKey("other"), JobKey("other", 1), JobKey("other", rate="999999/s")]
FLOOD = JobKey("flood", rate="1/h")
SIZES = (10, 10_000)
ROUNDS = 40


async def fill(store, waiting):
    numbers = itertools.count(1)
    for _ in range(max(waiting // 1000, 1)):
        await store.enqueue_jobs(QUEUE, [new_job(key=FLOOD)] * min(waiting + 1, 1000))
    found = await store.dequeue_jobs(QUEUE, 10, claim(numbers))
    assert len(found.jobs) == 1
    return numbers


def claim(numbers):
    return Claim(f"h:1:1:w:{next(numbers)}", 60_000)


async def round_of(store, key, numbers):
    """Enqueue a job, take and end it."""
    await store.enqueue_jobs(QUEUE, [new_job(key=key)])
    by = claim(numbers)
    [job] = (await store.dequeue_jobs(QUEUE, 1, by)).jobs
    settled = await store.ack_dequeued_jobs(QUEUE, [ack_of(job.descriptor, claim=by.descriptor)], [])
    assert settled.changed == 1


@pytest.mark.parametrize("key", KEYS)
def test_jobs_that_wait_for_a_rate_cost_others_no_statement_of_mysql(packets, key):
    def cost(waiting):
        async def scenario(server):
            numbers, rounds = await fill(server, waiting), Counter()
            for _ in range(ROUNDS):
                packets.clear()
                await round_of(server, key, numbers)
                rounds[tuple(packets)] += 1
            return rounds

        return with_servers(scenario)

    def usual(rounds):
        """Return what rounds cost, without what is looked at anew now and then, by the time."""
        return {each for each, count in rounds.items() if count >= max(rounds.values()) / 2}

    few, many = map(cost, SIZES)
    assert usual(many) <= few.keys()
    assert usual(few) <= many.keys()
    assert key is not None or usual(many) == {(1, 3, 1, 2, 3, 1)}


@pytest.mark.parametrize("key", KEYS)
def test_jobs_that_wait_for_a_rate_cost_others_no_command_of_redis(redis_bench: RedisBench, redis_service, key):
    def commands():
        with redis_service.client() as client:
            stats = client.info("commandstats")
        return Counter({name: value["calls"] for name, value in stats.items() if "info" not in name})

    def cost(waiting):
        with redis_service.client() as client:
            client.flushall()
        shard = redis_bench.shard(redis_service)
        redis_bench.run(shard.create_queue(QUEUE))
        numbers = redis_bench.run(fill(shard, waiting))
        redis_bench.run(round_of(shard, key, numbers))
        before = commands()
        redis_bench.run(round_of(shard, key, numbers))
        spent = commands() - before
        return {
            name: spent[name]
            for name in spent
            if name.split("_")[1]
            in {"evalsha", "hget", "hset", "hmget", "zadd", "zrem", "zrangebylex", "zrangebyscore"}
        }

    few, many = map(cost, SIZES)
    assert many == few
    assert few["cmdstat_evalsha"] == 3


def test_a_job_that_an_older_server_has_claimed_is_not_moved(redis_bench: RedisBench, redis_service):
    """It notes claims in the record alone."""
    shard = redis_bench.shard(redis_service)
    redis_bench.run(shard.create_queue(QUEUE))
    names = redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job(key=FLOOD)] * 3))
    assert len(redis_bench.run(shard.dequeue_jobs(QUEUE, 10, Claim("h:1:1:w:1", 60_000))).jobs) == 1
    _, second, third = (JobDescriptor.parse(name) for name in names)
    with redis_service.client() as client:
        (jobs,) = client.keys("pinlater:{1:" + QUEUE + "}:*:jobs")
        (pending,) = client.keys("pinlater:{1:" + QUEUE + "}:*:p1")
        (member,) = (name for name in client.hkeys(jobs) if name.endswith(b"%d" % second.local_id))
        client.hset(jobs, member, b"1" + client.hget(jobs, member)[1:] + b"h:1:1:old:1")
        client.zrem(pending, member)
    redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job(key=JobKey("flood", rate="1/m"))]))
    held, let_through = redis_bench.run(shard.lookup_jobs([second, third]))
    assert (held.state, let_through.state) == (IN_PROGRESS, PENDING)
    assert let_through.run_after_ms < WAITS_FOR_KEY_MS
