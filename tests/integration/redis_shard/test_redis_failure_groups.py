"""Failure groups on Redis beside servers of version 0.1, which change and delete jobs without knowing of any."""

import pytest

from pinlater.model.failure_groups import failure_of
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.failure_budget import MOST_CHECKED
from pinlater.server.backends.records import JobFilter
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.redis_bench import CLAIM

BOOM = failure_of("Mail", "boom")


def fail(bench, shard, jobs):
    """Let the first attempt of so many jobs fail; half of them have another priority."""
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=9, priority=number % 2 + 1) for number in range(jobs)]))
    acks = [ack_of(job.descriptor, claim=CLAIM.descriptor, failure=BOOM) for job in bench.take(shard, jobs)]
    bench.run(shard.ack_dequeued_jobs(QUEUE, [], acks))


def be_due(shard, service):
    """Let the groups be looked at now."""
    with service.client() as client:
        client.zadd(shard._slow_scripts.shard_key("earliest:failures"), {QUEUE: 0})


def retrying(bench, shard):
    return bench.run(shard.count_jobs(QUEUE, JobFilter(PENDING, is_retrying=True)))


def groups(bench, shard):
    return [(each.retrying, each.given_up) for each in bench.run(shard.failure_groups([QUEUE], 9))]


@pytest.mark.parametrize("jobs", [4, 2 * MOST_CHECKED + 2])
def test_what_such_a_server_has_changed_or_deleted_is_taken_out(bench, service, shard, jobs):
    fail(bench, shard, jobs)
    with service.client() as client:
        (records,) = client.keys("pinlater:{1:" + QUEUE + "}:*:jobs")
        others = sorted(client.hkeys(records))[:-1]
        for number, member in enumerate(others):
            if number % 2:
                client.hset(records, member, b"2" + client.hget(records, member)[1:])
            else:
                client.hdel(records, member)
    assert (retrying(bench, shard), groups(bench, shard)) == (jobs, [(jobs, 0)])
    be_due(shard, service)
    for _ in range(1 + jobs // MOST_CHECKED):
        bench.run(shard.forget_results(100))
    assert (retrying(bench, shard), groups(bench, shard)) == (1, [(1, 0)])


def test_a_job_that_such_a_server_has_given_up_is_so_in_its_group(bench, service, shard):
    fail(bench, shard, 1)
    with service.client() as client:
        (records,) = client.keys("pinlater:{1:" + QUEUE + "}:*:jobs")
        ((member, line),) = client.hgetall(records).items()
        client.hset(records, member, b"3" + line[1:])
    be_due(shard, service)
    bench.run(shard.forget_results(100))
    assert (retrying(bench, shard), groups(bench, shard)) == (0, [(0, 1)])
