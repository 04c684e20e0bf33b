"""A Redis shard and a real server: what the contract's tests, which every store passes, do not ask."""

import asyncio
import contextlib
import subprocess
import time

import pytest

from pinlater.errors import QueueNotFound, ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.protocol.messages import PENDING, SUCCEEDED
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.redis.connection import SharedConnection
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.backends.sharded import ShardedStore, ShardFull, ShardSpec, ShardUnreachable
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.backends.unavailable import ChangeRefused
from pinlater.server.clock import elapsed_seconds
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.support.ports import free_port
from tests.support.redis_bench import CLAIM
from tests.support.redis_service import RedisService, program

FROM_ELSEWHERE = JobRecord(f"{QUEUE}:sold:p1:1", PENDING, 2, 2, "", 0, 0, 0, None, b"body")


def test_batches_of_any_size_go_through_at_once(bench, shard):
    """Lua cannot unpack more than some thousands of arguments."""
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job(b"%d" % number) for number in range(20_000)]))
    taken = bench.take(shard, 20_000)
    assert [job.descriptor for job in taken] == names
    assert [job.body for job in taken[::5000]] == [b"0", b"5000", b"10000", b"15000"]
    acks = [ack_of(name, claim=CLAIM.descriptor) for name in names]
    settled = bench.run(shard.ack_dequeued_jobs(QUEUE, acks[:10_000], acks[10_000:]))
    assert settled.changed == 20_000
    assert bench.count(shard, SUCCEEDED) == bench.count(shard) == 10_000


def test_scripts_that_were_flushed_are_loaded_again(bench, service, shard):
    with service.client() as client:
        client.script_flush()
    (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    assert [job.descriptor for job in bench.take(shard)] == [name]


@pytest.mark.parametrize("answered", range(6))
def test_a_queue_that_another_server_creates_again_is_listed_whenever_the_one_that_deletes_it_ends(
    bench, service, shard, monkeypatch, answered
):
    other = bench.shard(service)
    run, call, calls_left = ScriptRunner.run, SharedConnection.call, []

    async def run_and_create(runner, script, *arguments, **options):
        result = await run(runner, script, *arguments, **options)
        if script == "delete_queue":
            await other.create_queue(QUEUE)
            calls_left.extend(range(answered))
            patch.setattr(shard._slow_connection, "call", answer_some)
        return result

    def answer_some(*command):
        if not calls_left:
            raise ShardUnreachable("the server has ended")
        calls_left.pop()
        return call(shard._slow_connection, *command)

    with monkeypatch.context() as patch, contextlib.suppress(ShardUnreachable):
        patch.setattr(ScriptRunner, "run", run_and_create)
        bench.run(shard.delete_queue(QUEUE))
    assert bench.run(other.queue_names()) == {QUEUE}


def test_a_connection_that_was_closed_meanwhile_costs_no_call(bench, service, shard):
    for _ in range(3):
        with service.client() as client:
            client.client_kill_filter(skipme=True, _type="normal")
        assert len(bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))) == 1
    assert bench.count(shard) == 3


def test_times_are_those_of_the_server(bench, service, shard):
    with service.client() as client:
        seconds, _ = client.time()
    (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    (record,) = bench.run(shard.lookup_jobs([JobDescriptor.parse(name)]))
    assert abs(record.created_at_ms - seconds * 1000) < 60_000
    assert abs(bench.run(shard.read_clock()) + elapsed_seconds() * 1000 - seconds * 1000) < 60_000


def test_several_servers_share_a_shard(bench, service, shard):
    others = [shard, *(bench.shard(service) for _ in range(3))]
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=2) for _ in range(400)]))
    claims = [Claim(f"host:{number}:1:worker:1", 1) for number in range(4)]
    found = bench.run(
        *(other.dequeue_jobs(QUEUE, 10, claim) for _ in range(10) for other, claim in zip(others, claims, strict=True))
    )
    assert sorted(job.descriptor for dequeued in found for job in dequeued.jobs) == sorted(names)
    time.sleep(0.01)
    reaped = bench.run(*(other.reap_expired(1000, server_age_ms=10**9, quiet_ms=1) for other in others))
    assert sum(expired.retried for some in reaped for expired in some) == 400, "none twice"
    assert bench.count(shard) == 400


def test_shards_may_share_a_server(bench, service, shard):
    other = bench.shard(service, "2")
    bench.run(other.create_queue("reports"))
    assert bench.run(shard.queue_names()) == {QUEUE}
    assert bench.run(other.queue_names()) == {"reports"}
    with pytest.raises(QueueNotFound):
        bench.take(other)


def test_a_deleted_queue_leaves_no_jobs_behind(bench, service, shard):
    names = bench.run(
        shard.enqueue_jobs(QUEUE, [new_job(priority=number % 3 + 1, status="s") for number in range(900)])
    )
    bench.take(shard, 500)
    bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in names[:300]], []))
    bench.run(shard.delete_queue(QUEUE))
    with service.client() as client:
        # Ids go on, lest a descriptor mean two jobs; and others have to learn that its settings have gone.
        assert {*client.keys()} == {b"pinlater:{1:%s}:ids" % QUEUE.encode(), b"pinlater:{1}:queues:changes"}


def test_what_waits_for_a_server_that_stands_still_is_told_soon(bench, shard, standing_still):
    bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    began = time.monotonic()

    async def call():
        with pytest.raises(ShardConnectionFailed):
            await shard.enqueue_jobs(QUEUE, [new_job()])

    async def later():
        await asyncio.sleep(0.1)
        with pytest.raises(ShardUnreachable):
            await shard.enqueue_jobs(QUEUE, [new_job()])

    with standing_still():
        bench.run(call(), *(later() for _ in range(20)))
    assert time.monotonic() - began < 30


def test_a_server_that_is_gone_is_unreachable_until_it_is_back(bench, service, shard):
    bench.run(shard.ping())
    service.kill()
    with pytest.raises(ShardUnreachable, match=str(service.port)):
        bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    service.start()
    bench.run(shard.ping())
    bench.run(shard.create_queue(QUEUE))
    assert len(bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))) == 1


@pytest.mark.parametrize(
    "call",
    [lambda shard: shard.enqueue_jobs(QUEUE, [new_job()]), lambda shard: shard.create_queue(QUEUE)],
    ids=["a script", "a command"],
)
def test_a_server_that_became_a_replica_is_left(bench, service, shard, tmp_path, call):
    with RedisService(tmp_path / "master") as master:
        bench.run(call(shard))
        connections = shard.connections
        with service.client() as client:
            client.replicaof("127.0.0.1", master.port)
        for _ in range(2):
            with pytest.raises(ShardUnreachable):
                bench.run(call(shard))
            assert shard.connections == connections - 1
        with service.client() as client:
            client.replicaof("NO", "ONE")
        bench.run(shard.create_queue(QUEUE))
        assert len(bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))) == 1


def test_sentinel_leads_to_the_new_master(bench, tmp_path):
    master, replica = RedisService(tmp_path / "one"), RedisService(tmp_path / "two")
    port = free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {port}\ndir {tmp_path}\nsentinel monitor jobs 127.0.0.1 {master.port} 1\n"
        "sentinel down-after-milliseconds jobs 300\nsentinel failover-timeout jobs 3000\n"
    )
    with replica.client() as client:
        client.replicaof("127.0.0.1", master.port)
        while client.info("replication")["master_link_status"] != "up":
            time.sleep(0.05)
    sentinel = subprocess.Popen([program(), str(config), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        shard = bench.shard_at(RedisEndpoint(None, (("127.0.0.1", port),), "jobs"))
        bench.until(lambda: bench.run(shard.create_queue(QUEUE)))
        (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
        with master.client() as client:
            assert client.wait(1, 5000) == 1
        with master.client() as client:  # the sentinel has to know of the replica
            while len(client.info("replication")) and client.info("replication")["connected_slaves"] != 1:
                time.sleep(0.05)
        time.sleep(1)
        master.kill()
        assert [job.descriptor for job in bench.until(lambda: bench.take(shard), seconds=60)] == [name]
        assert len(bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))) == 1
    finally:
        sentinel.kill()
        sentinel.wait()
        master.close()
        replica.close()


def test_a_full_server_refuses_new_jobs_and_changes_nothing(bench, service, shard):
    (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    with service.client() as client:
        client.config_set("maxmemory", 1)
        for refused in (shard.enqueue_jobs(QUEUE, [new_job()]), shard.import_jobs(QUEUE, [FROM_ELSEWHERE])):
            with pytest.raises(ShardFull, match="no new jobs: its memory is full; raise maxmemory"):
                bench.run(refused)
        client.config_set("maxmemory", 0)
    assert bench.count(shard) == 1
    assert [job.descriptor for job in bench.take(shard)] == [name]


@pytest.mark.parametrize("trouble", ["maxmemory", "min-replicas-to-write"])
def test_a_new_queue_gets_its_jobs_where_they_are_taken(bench, service, tmp_path, trouble):
    other = RedisService(tmp_path / "other")

    async def begin():
        store = ShardedStore("redis", lambda spec: RedisShard(spec.name, spec.endpoint, StoreOptions(3)))
        places = {"good": service, "bad": other}
        store.update([ShardSpec(name, RedisEndpoint(("127.0.0.1", at.port))) for name, at in places.items()])
        try:
            await store.create_queue(QUEUE)
            names = [name for _ in range(20) for name in await store.enqueue_jobs(QUEUE, [new_job()])]
            names += [name for _ in range(20) for name in await store.import_jobs(QUEUE, [FROM_ELSEWHERE])]
            assert {JobDescriptor.parse(name).shard for name in names} == {"good"}
            assert await store.count_jobs(QUEUE, JobFilter(PENDING)) == 40
            assert store.unhealthy_shards == 0
        finally:
            await store.close()

    try:
        with other.client() as client:
            client.config_set(trouble, 1)
        bench.run(begin())
    finally:
        other.close()


def test_what_a_full_server_has_is_worked_off(bench, service, shard):
    """Whoever has run a job can say so, and operators can make room."""
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job() for _ in range(6)]))
    with service.client() as client:
        client.config_set("maxmemory", 1)
        bench.run(shard.create_queue("young"))
        assert [job.descriptor for job in bench.take(shard)] == names
        held = [checkpoint_of(name, claim=CLAIM.descriptor) for name in names]
        assert bench.run(shard.checkpoint_jobs(QUEUE, held)).changed == 6
        acks = [ack_of(name, claim=CLAIM.descriptor, status="done", result=b"1") for name in names[:2]]
        failed = [ack_of(names[2]), ack_of(names[3], is_final=True)]
        assert bench.run(shard.ack_dequeued_jobs(QUEUE, acks, failed)).changed == 4
        assert bench.run(shard.cancel_jobs(QUEUE, [JobDescriptor.parse(names[4])], "stop")).asked
        assert bench.run(shard.release_claims(QUEUE, "worker")) == 2
        assert bench.run(shard.retry_failed_jobs(QUEUE, 1, 1, None, 10)) == 2  # the cancelled one is FAILED, too
        assert bench.run(shard.acquire_tokens(QUEUE, 1.0, 1)).taken == 1
        assert bench.run(shard.lock_queue(QUEUE, 1000)) is not None
        bench.run(shard.store_report("worker", b"report", 1000))
        bench.run(shard.change_queue_settings(QUEUE, QueueChange(is_paused=True)))
        assert bench.run(shard.queue_settings())[QUEUE].is_paused
        assert bench.run(shard.delete_jobs(QUEUE, JobFilter(PENDING, 1), 1)) == 1
        bench.run(shard.delete_queue(QUEUE))
        client.config_set("maxmemory", 0)
    assert bench.run(shard.queue_names()) == {"young"}


def test_a_queue_outlives_the_eviction_of_its_jobs(bench, service, shard):
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(priority=number % 3 + 1) for number in range(12)]))
    names = [job.descriptor for job in bench.take(shard, 6)]
    bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(names[0])], [ack_of(names[1], is_final=True)]))
    with service.client() as client:
        for kind in (b"jobs", b"bodies"):
            (key,) = [key for key in client.scan_iter() if key.endswith(kind)]
            client.delete(key)
    assert bench.take(shard) == []
    assert bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(names[2])], [])).stale == 1
    assert bench.run(shard.release_claims(QUEUE, "worker")) == 0
    assert bench.run(shard.retry_failed_jobs(QUEUE, 1, 1, None, 10)) in {0, 1}
    for _ in range(2):
        bench.run(shard.reap_expired(100, server_age_ms=10**9, quiet_ms=1))
        bench.run(shard.collect_finished(0, 0, 100))
    (fresh,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    assert [job.descriptor for job in bench.take(shard)] == [fresh]


def let_claim_expire(client):
    for claims in [key for key in client.scan_iter() if key.endswith(b"claims")]:  # of the queue, and of the shard
        (member,) = client.zrange(claims, 0, -1)
        client.zadd(claims, {member: 1})  # it has run out, long ago


def test_after_an_outage_claims_get_time_to_be_renewed(bench, service, shard):
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=2)]))
    (job,) = bench.take(shard, 1, Claim("host:1:1:worker:1", 60_000))
    with service.client() as client:
        let_claim_expire(client)
        client.replicaof("127.0.0.1", 1)
        client.client_kill_filter(skipme=True, _type="normal")
        with pytest.raises(ShardConnectionFailed):
            bench.run(shard.ping())
        client.replicaof("NO", "ONE")
    bench.run(shard.ping())
    assert bench.run(shard.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000)) == []
    assert bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(job.descriptor)], [])).changed == 1


@pytest.mark.parametrize("is_seen", [True, False], ids=["by the one that was asked to renew", "by another server"])
def test_after_changes_were_refused_claims_get_time_to_be_renewed(bench, service, shard, is_seen):
    """As with a full disk, when Redis accepts no writes until there is room again."""
    reaper = shard if is_seen else bench.shard(service)
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=2)]), reaper.ping())
    claim = Claim("host:1:1:worker:1", 60_000)
    (job,) = bench.take(shard, 1, claim)
    renewal = [checkpoint_of(job.descriptor, claim=claim.descriptor)]
    with service.client() as client:
        let_claim_expire(client)
        client.config_set("min-replicas-to-write", 1)
        with pytest.raises(ChangeRefused, match="NOREPLICAS"):
            bench.run(shard.checkpoint_jobs(QUEUE, renewal))
        if not is_seen:
            with pytest.raises(ChangeRefused, match="NOREPLICAS"):
                bench.run(reaper.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000))
        client.config_set("min-replicas-to-write", 0)
    assert bench.run(reaper.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000)) == []
    assert bench.run(shard.checkpoint_jobs(QUEUE, renewal)).changed == 1


def test_a_cancelled_call_disturbs_no_other(bench, shard):
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job(b"%d" % number) for number in range(200)]))
    jobs = [JobDescriptor.parse(name) for name in names]

    async def look(number):
        (record,) = await shard.lookup_jobs([jobs[number]], body_bytes=1_000_000)
        assert record.body == b"%d" % number

    async def look_and_cancel():
        for start in range(0, 200, 20):
            tasks = [asyncio.ensure_future(look(number)) for number in range(start, start + 20)]
            await asyncio.sleep(0.001 * (start % 3))
            for task in tasks[::3]:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert result is None or isinstance(result, asyncio.CancelledError)

    bench.run(look_and_cancel())


def test_a_refusal_names_the_shard(bench, service, shard):
    with service.client() as client:
        client.set("pinlater:{1:broken}", 1)
        client.set("pinlater:{1:broken}:1:p1", "no sorted set")
    with pytest.raises(UnknownError, match="shard 1 refused the call"):
        bench.take(shard, queue="broken")


def test_settings_of_many_queues_are_read_again_when_somebody_has_changed_some(bench, service, shard, monkeypatch):
    names = [f"queue{number}" for number in range(50)]
    other = bench.shard(service)
    bench.run(*(shard.create_queue(name) for name in names))
    before = bench.run(shard.queue_settings())
    calls = []
    run = ScriptRunner.run

    async def recorded(self, script, *arguments, **options):
        calls.append(script)
        return await run(self, script, *arguments, **options)

    monkeypatch.setattr(ScriptRunner, "run", recorded)
    assert bench.run(shard.queue_settings()) == before
    bench.run(other.create_queue("young"))
    assert bench.run(shard.queue_settings()) == before | {"young": QueueSettings()}
    assert calls == ["create_queue", "queue_settings"]
    bench.run(other.change_queue_settings("queue7", QueueChange(is_paused=True)))
    assert bench.run(shard.queue_settings())["queue7"].is_paused
    bench.run(other.delete_queue("queue7"))
    bench.run(other.create_queue("queue7"))
    assert not bench.run(shard.queue_settings())["queue7"].is_paused
    bench.run(other.delete_queue("queue7"))
    assert "queue7" not in bench.run(shard.queue_settings())


def test_a_read_of_a_few_queues_for_a_dequeue_does_not_wait_behind_slow_scripts(bench, shard, monkeypatch):
    monkeypatch.setattr(shard, "_slow_scripts", None)
    names = [QUEUE, *(f"other{number}" for number in range(20))]
    assert bench.run(shard.due_priorities(names)).keys() == {QUEUE}
