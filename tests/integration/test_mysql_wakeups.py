"""A dequeue that waits on one server gets what another one stores; an idle queue costs next to nothing."""

import asyncio
import contextlib
import json
import time

import pytest

from pinlater.server.backends.arrivals import Arrivals
from pinlater.server.backends.contract import Claim
from pinlater.server.backends.mysql import watcher as watching
from pinlater.server.clock import SteadyClock
from tests.support.apache import ApacheClient
from tests.support.bench import QUEUE, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import fresh_prefix, make_fleet, place_of
from tests.support.server import ServerProcess


class Pair:
    """Two stores of one place: one that waits, with what it was told, and one that stores."""

    def __init__(self):
        self.told = []
        self.arrivals = Arrivals()
        self.arrivals.on_arrival = lambda queue, due_ms: self.told.append((queue, time.monotonic()))

    async def __aenter__(self):
        clock, prefix, places = SteadyClock(), fresh_prefix(), [place_of(shared_service())]
        self.here = make_fleet(places, clock.now_ms, prefix=prefix, arrivals=self.arrivals)
        self.there = make_fleet(places, clock.now_ms, prefix=prefix)
        await self.here.create_queue(QUEUE)
        return self

    async def __aexit__(self, *_):
        await asyncio.gather(self.here.close(), self.there.close())

    async def come_back_short(self):
        return (await self.here.dequeue_jobs(QUEUE, 10, Claim("h:1:1:w:1", 1000), want_next_due=True)).jobs

    async def until_told(self, times=1):
        async with asyncio.timeout(30):
            while len(self.told) < times:
                await asyncio.sleep(0.001)


def in_pair(scenario):
    async def run():
        async with Pair() as pair:
            return await scenario(pair)

    return asyncio.run(run())


def test_jobs_of_another_server_are_told_of_once_per_short_claim():
    async def scenario(pair):
        assert await pair.come_back_short() == []
        await pair.there.enqueue_jobs(QUEUE, [new_job(priority=3)])
        await pair.until_told()
        await asyncio.sleep(0.2)
        assert len(pair.told) == 1, "nobody has looked since"
        assert len(await pair.come_back_short()) == 1
        await pair.there.enqueue_jobs(QUEUE, [new_job()])
        await pair.until_told(2)

    in_pair(scenario)


def test_nobody_is_told_of_jobs_for_later():
    async def scenario(pair):
        later = int(time.time() * 1000) + 60_000
        assert await pair.come_back_short() == []
        await pair.there.enqueue_jobs(QUEUE, [new_job(run_after_ms=later)])
        await asyncio.sleep(0.3)
        assert pair.told == []

    in_pair(scenario)


def test_a_queue_where_nothing_comes_is_looked_at_less_and_less(monkeypatch):
    looks = []
    real = watching.Watcher._look

    async def look(self, watches):
        looks.append(time.monotonic())
        await real(self, watches)

    monkeypatch.setattr(watching.Watcher, "_look", look)

    async def scenario(pair):
        await pair.come_back_short()
        for _ in range(6):
            await asyncio.sleep(1)
            await pair.come_back_short()  # whoever waits asks again
        return looks

    in_pair(scenario)
    assert len(looks) < 40
    assert looks[-1] - looks[-2] > 10 * watching.SHORTEST_SECONDS


def test_interest_ends(monkeypatch):
    monkeypatch.setattr(watching, "INTEREST_SECONDS", 0.1)

    async def scenario(pair):
        await pair.come_back_short()
        [member] = pair.here._roster
        async with asyncio.timeout(30):
            while member.shard._watcher._task is not None:
                await asyncio.sleep(0.01)
        await pair.there.enqueue_jobs(QUEUE, [new_job()])
        await asyncio.sleep(0.2)
        assert pair.told == []
        assert len(await pair.come_back_short()) == 1

    in_pair(scenario)


@pytest.fixture
def two_servers(tmp_path):
    service = shared_service()
    entry = {"master": {"host": service.host, "port": service.port}, "user": service.user, "passwd": service.password}
    file = tmp_path / "shards.json"
    file.write_text(json.dumps({"shard1": entry}))
    settings = {
        "PINLATER_BACKEND": "mysql", "BACKEND_CONFIG": str(file), "MYSQL_DATABASE_PREFIX": fresh_prefix(),
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        servers = []
        for name in "ab":
            servers.append(ServerProcess(tmp_path / name, **settings))
            stack.callback(servers[-1].stop)
        yield servers


def test_a_dequeue_parked_on_one_server_gets_the_job_of_another(two_servers):
    first, second = two_servers
    with ApacheClient(first.port) as waiter, ApacheClient(second.port) as producer:
        producer.createQueue(name=QUEUE)
        for number in range(5):
            waiter.send(
                "dequeueJobs",
                {"context": {"source": "w"}, "request": {"queueName": QUEUE, "limit": 1, "waitMillis": 20_000}},
            )
            time.sleep(0.1)
            [name] = producer.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"%d" % number}])["jobDescriptors"]
            began = time.monotonic()
            _, answer = waiter.read("dequeueJobs")
            assert answer["jobs"] == {name: b"%d" % number}
            assert time.monotonic() - began < 10
