"""Dequeues that wait for many idle queues of a sharded store: what they cost, and what reaches them."""

import asyncio
import time

import pytest

from pinlater.server.backends.contract import LookPauses
from pinlater.server.backends.mysql.connection import Connection
from pinlater.server.backends.records import Claim
from pinlater.server.backends.redis.asking import Asker
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.handing_out import DequeueOrder
from pinlater.server.rate_limits import RateLimits
from tests.support.bench import new_job
from tests.support.fleets import mysql_fleets, redis_fleets

QUEUES = [f"idle{number}" for number in range(60)]
PAUSES = LookPauses(0.05, 0.2)


@pytest.fixture(params=[mysql_fleets, redis_fleets])
def fleets(request, tmp_path):
    make, close = request.param(tmp_path, pauses=PAUSES)
    yield make
    close()


@pytest.fixture
def asked(monkeypatch):
    """Collects the statements and scripts that are sent."""
    asked = []
    run, ask = Connection.run, Asker.ask

    async def noted_run(self, *statements):
        asked.extend(statements)
        return await run(self, *statements)

    async def noted_ask(self, script, queue, *arguments, **options):
        asked.append(script)
        return await ask(self, script, queue, *arguments, **options)

    monkeypatch.setattr(Connection, "run", noted_run)
    monkeypatch.setattr(Asker, "ask", noted_ask)
    return asked


async def until(condition):
    async with asyncio.timeout(50):
        while not condition():
            await asyncio.sleep(0.005)


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
        broker = Broker(here, RateLimits(), lambda: int(time.time() * 1000))
        order = DequeueOrder(QUEUES, 1, 1_000_000, lambda: Claim("h:1:1:w:1", 30_000), 60.0)
        waiting = [asyncio.create_task(broker.dequeue(order, Caller())) for _ in range(2)]
        await until(lambda: broker.parked_dequeues == 2 and len(looks) > 3)
        begun, sent = len(looks), len(asked)
        await until(lambda: len(looks) >= begun + 8)
        # A look may be under way at either end; scripts of Redis are one for each queue, in one packet.
        most = (len(looks) - begun + 1) * 2 * (len(QUEUES) if here.capabilities.name == "redis" else 1)
        assert len(asked) - sent <= most, asked[sent:]
        [name] = await there.enqueue_jobs(QUEUES[-1], [new_job(b"theirs")])
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [job.descriptor for task in done for job in task.result().jobs[QUEUES[-1]]] == [name]
        broker.end_waits()
        await asyncio.gather(*waiting)
        await asyncio.gather(here.close(), there.close())

    asyncio.run(scenario())
