"""Many idle queues of a sharded store: what dequeues that wait for them and the monitor cost, and what reaches them."""

import asyncio

import pytest

from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import Claim
from pinlater.server.backends.redis.due_index import forget_queue
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits
from tests.support.bench import new_job
from tests.support.fleets import mysql_fleets, redis_fleets
from tests.support.redis_bench import CLAIM
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("patience")

QUEUES = [f"idle{number}" for number in range(60)]
PAUSES = PollIntervals(0.05, 0.2)


@pytest.fixture(params=[mysql_fleets, redis_fleets])
def fleets(request, tmp_path):
    make, close = request.param(tmp_path, pauses=PAUSES)
    yield make
    close()


@pytest.fixture
def asked(monkeypatch):
    """Collects the statements and scripts that are sent."""
    asked = []
    run, run_script = MysqlConnection.run, ScriptRunner.run

    async def recorded_run(self, *statements):
        asked.extend(statements)
        return await run(self, *statements)

    async def recorded_script(self, script, queue, *arguments, **options):
        asked.append(script)
        return await run_script(self, script, queue, *arguments, **options)

    monkeypatch.setattr(MysqlConnection, "run", recorded_run)
    monkeypatch.setattr(ScriptRunner, "run", recorded_script)
    return asked


def test_a_look_at_idle_queues_is_one_statement_a_shard_and_finds_what_others_store(fleets, asked):
    async def scenario():
        here, there = fleets(), fleets()
        for queue in QUEUES:
            await here.create_queue(queue)
        looks = []
        first_due = here.first_due

        async def noted(queues):
            looks.append(len(queues))
            return await first_due(queues)

        here.first_due = noted
        broker = Broker(here, RateLimits())
        order = DequeueRequest(QUEUES, 1, 1_000_000, lambda: Claim("h:1:1:w:1", 30_000), 60.0)
        waiting = [asyncio.create_task(broker.dequeue(order, Caller())) for _ in range(2)]
        await until(lambda: broker.parked_dequeues == 2 and len(looks) > 3)
        begun, sent = len(looks), len(asked)
        await until(lambda: len(looks) >= begun + 8)
        # A look may be under way at either end.
        assert len(asked) - sent <= (len(looks) - begun + 1) * 2, asked[sent:]
        [name] = await there.enqueue_jobs(QUEUES[-1], [new_job(b"theirs")])
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [job.descriptor for task in done for job in task.result().jobs[QUEUES[-1]]] == [name]
        broker.end_all_waits()
        await asyncio.gather(*waiting)
        await asyncio.gather(here.close(), there.close())

    asyncio.run(scenario())


def test_clients_that_poll_an_empty_queue_cost_no_statement_until_a_job_comes(fleets, asked):
    async def scenario():
        here, there = fleets(), fleets()
        await here.create_queue(QUEUES[0])
        broker = Broker(here, RateLimits())
        order = DequeueRequest(QUEUES[:1], 1, 1_000_000, lambda: Claim("h:1:1:w:1", 30_000), 0.0)

        async def poll():
            return [job.descriptor for jobs in (await broker.dequeue(order, Caller())).jobs.values() for job in jobs]

        for _ in range(4):
            assert await poll() == []
        before = len(asked)
        for _ in range(1000):
            assert await poll() == []
        assert len(asked) == before, asked[before:]
        [name] = await there.enqueue_jobs(QUEUES[0], [new_job()])
        async with asyncio.timeout(50):
            while not (found := await poll()):
                await asyncio.sleep(0.005)
        assert found == [name]
        broker.end_all_waits()
        await asyncio.gather(here.close(), there.close())

    asyncio.run(scenario())


def test_a_round_of_the_monitor_is_one_statement_a_shard_until_there_is_work(asked, tmp_path):
    make, close = mysql_fleets(tmp_path, pauses=PAUSES)

    async def scenario():
        here = make()
        for queue in QUEUES:
            await here.create_queue(queue)

        async def round_of_monitor():
            before = len(asked)
            reaped, collected, *_ = await asyncio.gather(
                here.reap_expired(100, server_age_ms=10**9, quiet_ms=0),
                here.collect_finished(3_600_000, 3_600_000, 100),
                here.forget_results(100),
                here.forget_statistics(100),
            )
            return len(asked) - before, [one.retried for one in reaped], [one.queue for one in collected]

        await round_of_monitor()
        assert await round_of_monitor() == (here.shards, [], [])
        await here.enqueue_jobs(QUEUES[0], [new_job(attempts=3)])
        await here.dequeue_jobs(QUEUES[0], 1, Claim("h:1:1:w:1", 1))
        await asyncio.sleep(0.01)
        spent, retried, _ = await round_of_monitor()
        assert (spent > here.shards, retried) == (True, [1])
        await here.delete_queue(QUEUES[1])
        assert (await round_of_monitor())[0] > here.shards  # its jobs are deleted, then its row
        assert (await round_of_monitor())[0] == here.shards
        await here.close()

    asyncio.run(scenario())
    close()


MANY = 300
ROUNDS = 5
MOST_COMMANDS = 150
"""For a round of the monitor, and a look at the settings, on one shard, however many queues there are."""


def look_after(bench, shard):
    """Do one round of the monitor, with what else is asked again and again; return what expired."""
    expired, _, _ = bench.run(
        shard.reap_expired(100, server_age_ms=10**9, quiet_ms=0),
        shard.collect_finished(3_600_000, 3_600_000, 100),
        shard.queue_settings(),
    )
    return [tuple(one) for one in expired]


def commands(client):
    """Return how many commands the server has carried out, those of scripts included."""
    return sum(one["calls"] for one in client.info("commandstats").values())


def test_the_monitor_costs_a_redis_shard_the_same_however_many_queues_are_idle(redis_bench, redis_service):
    shard = redis_bench.shard(redis_service)
    redis_bench.run(*(shard.create_queue(f"idle{number}") for number in range(MANY)))
    used = "idle0"
    redis_bench.run(shard.enqueue_jobs(used, [new_job() for _ in range(10)]))
    redis_bench.take(shard, queue=used)
    look_after(redis_bench, shard)
    with redis_service.client() as client:
        before = commands(client)
        for _ in range(ROUNDS):
            assert look_after(redis_bench, shard) == []
        assert commands(client) - before <= ROUNDS * MOST_COMMANDS


def test_a_claim_is_ended_in_the_first_look_after_it_expired_whoever_made_it(redis_bench, redis_service):
    clock = [1_000_000]
    here, there = (redis_bench.shard(redis_service, now_ms=lambda: clock[0]) for _ in range(2))
    redis_bench.run(*(here.create_queue(queue) for queue in QUEUES))
    look_after(redis_bench, here)
    for number, queue in enumerate(QUEUES):
        redis_bench.run(there.enqueue_jobs(queue, [new_job(attempts=3)]))
        redis_bench.take(there, claim=CLAIM._replace(lease_ms=1000 + number), queue=queue)
        assert look_after(redis_bench, here) == []
    for queue in QUEUES:
        clock[0] += 1000 if queue == QUEUES[0] else 1
        assert look_after(redis_bench, here) == [(queue, 1, 0)]
    for queue in QUEUES[:2]:  # what was ended is forgotten, and what is claimed anew is not
        redis_bench.take(there, claim=CLAIM._replace(lease_ms=500), queue=queue)
    clock[0] += 500
    assert sorted(look_after(redis_bench, here)) == [(queue, 1, 0) for queue in QUEUES[:2]]


def test_a_deleted_queue_leaves_nothing_for_the_monitor(redis_bench, redis_service):
    clock = [1_000_000]
    shard = redis_bench.shard(redis_service, now_ms=lambda: clock[0])
    for queue in QUEUES[:2]:
        redis_bench.run(shard.create_queue(queue))
        redis_bench.run(shard.enqueue_jobs(queue, [new_job(attempts=3)]))
        redis_bench.take(shard, queue=queue)
    redis_bench.run(shard.delete_queue(QUEUES[0]))
    with redis_service.client() as client:  # as if Redis had evicted it
        client.delete(f"pinlater:{{1:{QUEUES[1]}}}")
        client.srem("pinlater:{1}:queues", QUEUES[1])
        clock[0] += 100_000
        assert look_after(redis_bench, shard) == []
        assert not [key for key in client.scan_iter() if b":earliest:" in key]


def test_a_queue_that_exists_again_stays_on_the_list_of_the_monitor(redis_bench, redis_service):
    """Another server may create it after the monitor has not found it, and have claims in it already."""
    clock = [1_000_000]
    shard = redis_bench.shard(redis_service, now_ms=lambda: clock[0])
    redis_bench.run(shard.create_queue("again"))
    redis_bench.run(shard.enqueue_jobs("again", [new_job(attempts=3)]))
    redis_bench.take(shard, queue="again")
    redis_bench.run(forget_queue(shard._slow_scripts, "again"))
    clock[0] += 100_000
    assert look_after(redis_bench, shard) == [("again", 1, 0)]
