"""Redis Cluster: one master with all slots is a shard like any other; several masters are refused, with advice."""

import time

import pytest

from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import JobFilter
from pinlater.server.backends.sharded import ShardUnreachable
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.support.ports import free_port
from tests.support.redis_service import RedisService

LAST_SLOT = 16_383


@pytest.fixture
def make_cluster(tmp_path):
    """Makes a cluster of so many masters, and returns them."""
    services = []

    def make(masters):
        share = (LAST_SLOT + 1) // masters
        for number in range(masters):
            bus = free_port()
            services.append(RedisService(tmp_path / str(number), cluster_enabled="yes", cluster_port=str(bus)))
            with services[-1].client() as client:
                last = LAST_SLOT if number == masters - 1 else (number + 1) * share - 1
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * share, last)
            with services[0].client() as client:
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", services[-1].port, bus)
        for service in services:
            wait_until_complete(service, masters)
        return services

    yield make
    for service in services:
        service.close()


def wait_until_complete(service, masters):
    with service.client() as client:
        while True:
            told = client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True)
            if b"cluster_state:ok" in told and b"cluster_size:%d\r" % masters in told:
                return
            time.sleep(0.05)


def test_the_keys_of_each_call_lie_together(redis_bench, make_cluster):
    [service] = make_cluster(1)
    shard = redis_bench.shard(service)
    redis_bench.run(shard.create_queue(QUEUE))
    first, second = redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job(unique_key="one"), new_job(attempts=1)]))
    assert len(redis_bench.take(shard)) == 2
    held = checkpoint_of(first, status="half", move_to_pending=True)
    assert redis_bench.run(shard.checkpoint_jobs(QUEUE, [held])).changed == 1
    assert redis_bench.run(shard.ack_dequeued_jobs(QUEUE, [], [ack_of(second, status="no")])).changed == 1
    assert redis_bench.run(shard.retry_failed_jobs(QUEUE, 1, 1, None, 10)) == 1
    assert len(redis_bench.take(shard)) == 2
    assert redis_bench.run(shard.release_claims(QUEUE, "worker")) == 2
    assert [redis_bench.count(shard, state) for state in (PENDING, IN_PROGRESS, SUCCEEDED, FAILED)] == [2, 0, 0, 0]
    assert redis_bench.run(shard.reap_expired(10, server_age_ms=10**9, quiet_ms=1)) == []
    assert redis_bench.run(shard.collect_finished(0, 0, 10)) == []
    assert redis_bench.run(shard.delete_jobs(QUEUE, JobFilter(PENDING, 1), 1)) == 1
    redis_bench.run(shard.delete_queue(QUEUE))
    assert redis_bench.run(shard.queue_names()) == set()


def test_one_of_several_masters_is_refused_and_the_error_says_what_to_do(redis_bench, make_cluster):
    for service in make_cluster(2):
        with pytest.raises(
            ShardUnreachable, match=r"one of 2 masters.*list Redis servers that are not part of a cluster"
        ):
            redis_bench.run(redis_bench.shard(service).ping())


def test_the_advice_is_the_same_where_nobody_may_ask_for_the_cluster(redis_bench, make_cluster):
    for service in make_cluster(2):  # one of them has the list of queues, and both have half of the queues
        with service.client() as client:
            client.execute_command("ACL", "SETUSER", "default", "-cluster")
        shard = redis_bench.shard(service)
        with pytest.raises(ShardUnreachable, match=r"another server holds the key.* not part of a cluster"):
            make_queues(redis_bench, shard)


def make_queues(redis_bench, shard):
    for number in range(100):
        redis_bench.run(shard.create_queue(f"queue_{number}"))
