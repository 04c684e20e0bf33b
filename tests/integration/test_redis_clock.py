"""A Redis whose clock is set: the time that jobs and claims go by neither jumps with it nor stands still."""

import asyncio
import time

import pytest

from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.records import Claim
from pinlater.server.backends.redis import script_calls
from pinlater.server.backends.redis.scripts import Script, scripts
from pinlater.server.backends.sharded import ShardClock
from pinlater.server.clock import elapsed_seconds
from tests.support.bench import QUEUE, checkpoint_of, new_job

LEASE_MS = 5_000
AHEAD = "redis.call('GET', 'ahead')"


@pytest.fixture
def service(redis_service, monkeypatch):
    """A server whose scripts see another time as soon as the key ``ahead`` says by how many seconds."""
    moved = {}
    for name, script in scripts().items():
        text = script.text.replace(
            "local time = redis.call('TIME')",
            f"local time = redis.call('TIME'); time[1] = time[1] + ({AHEAD} or 0)",
        )
        moved[name] = Script(text, script.sha)
    with redis_service.client() as client:
        shas = {name: client.script_load(script.text) for name, script in moved.items()}
    moved = {name: Script(script.text, shas[name]) for name, script in moved.items()}
    monkeypatch.setattr(script_calls, "scripts", lambda: moved)
    return redis_service


def set_clock(service, seconds):
    with service.client() as client:
        client.set("ahead", seconds)


@pytest.fixture
def server(redis_bench, service):
    """Return a function that makes a shard as one server has it, which knows the time."""

    def make(clock=None):
        shard = redis_bench.shard(service)
        if clock is not None:
            shard.clock = clock
        redis_bench.run(shard.create_queue(QUEUE))
        redis_bench.run(shard.read_clock())
        return shard

    return make


def reap(redis_bench, *shards):
    calls = (shard.reap_expired(1000, server_age_ms=10**9, quiet_ms=1) for shard in shards)
    return [expired for found in [redis_bench.run(call) for call in calls] for expired in found]


def held(redis_bench, shard, count=5):
    """Store jobs and claim them; return their names and the claim."""
    redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job() for _ in range(count)]))
    claim = Claim(f"host:1:1:worker:{count}", LEASE_MS)
    return [job.descriptor for job in redis_bench.take(shard, count, claim)], claim.descriptor


def renew(redis_bench, shard, names, claim):
    items = [checkpoint_of(name, claim=claim) for name in names]
    return redis_bench.run(shard.checkpoint_jobs(QUEUE, items)).changed


@pytest.mark.parametrize("seconds", [60, -60])
def test_claims_that_are_renewed_do_not_expire(redis_bench, service, server, seconds):
    one, other = server(), server()
    names, claim = held(redis_bench, one)
    set_clock(service, seconds)
    for _ in range(3):
        assert reap(redis_bench, one, other) == []
        redis_bench.run(one.read_clock(), other.read_clock())
        assert renew(redis_bench, other, names, claim) == len(names)
    assert reap(redis_bench, one, other) == []


def test_nothing_is_handed_out_before_its_time(redis_bench, service, server):
    shard = server()
    now_ms = int(time.time() * 1000)
    redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job(run_after_ms=now_ms + 30_000)]))
    set_clock(service, 60)
    for _ in range(3):
        assert redis_bench.take(shard) == []
        redis_bench.run(shard.read_clock())


def test_a_job_that_was_stored_before_the_clock_was_set_back_is_not_late(redis_bench, service, server):
    shard = server()
    (name,) = redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    set_clock(service, -60)
    deadline = time.monotonic() + 30
    while not (taken := redis_bench.take(shard)):
        assert time.monotonic() < deadline
        redis_bench.run(asyncio.sleep(0.01), shard.read_clock())
    assert [job.descriptor for job in taken] == [name]


def test_a_server_that_starts_after_the_step_goes_by_the_time_of_the_others(redis_bench, service, server):
    old = server()
    names, claim = held(redis_bench, old)
    set_clock(service, 60)
    redis_bench.run(old.read_clock())
    new = server()
    assert abs(new.clock.now_ms() - old.clock.now_ms()) < 30_000
    assert reap(redis_bench, new) == []
    assert renew(redis_bench, old, names, claim) == len(names)
    assert reap(redis_bench, new, old) == []


def test_without_other_servers_one_that_starts_takes_the_time_that_it_finds(redis_bench, service, server):
    set_clock(service, 60)
    shard = server()
    assert shard.clock.now_ms() - time.time() * 1000 == pytest.approx(60_000, abs=30_000)


def test_a_machine_that_was_paused_with_its_clocks_takes_the_time_of_the_others(redis_bench, service, server):
    """Its claims would be over at once for them."""
    behind = 0.0
    going_on, paused = server(), server(ShardClock(lambda: elapsed_seconds() - behind))
    behind = 600.0
    redis_bench.run(going_on.read_clock())
    assert going_on.clock.now_ms() - paused.clock.now_ms() > 500_000
    redis_bench.run(paused.read_clock())
    assert abs(going_on.clock.now_ms() - paused.clock.now_ms()) < 60_000
    names, _ = held(redis_bench, paused)
    assert reap(redis_bench, going_on) == []
    assert redis_bench.count(going_on, IN_PROGRESS) == len(names)
    assert redis_bench.count(going_on, PENDING) == 0


def test_a_full_server_tells_the_time(redis_bench, service, server):
    shard = server()
    with service.client() as client:
        client.config_set("maxmemory", 1)
        try:
            assert redis_bench.run(shard.read_clock())
        finally:
            client.config_set("maxmemory", 0)


def test_an_expired_claim_ends_although_the_clock_was_set(redis_bench, service, server):
    shard = server()
    redis_bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    redis_bench.take(shard, 1, Claim("host:1:1:worker:1", 1))
    set_clock(service, -60)
    deadline = time.monotonic() + 30
    while not reap(redis_bench, shard):
        assert time.monotonic() < deadline
        redis_bench.run(asyncio.sleep(0.01), shard.read_clock())
    assert redis_bench.count(shard) == 1
