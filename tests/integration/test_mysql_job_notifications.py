"""Servers on MySQL tell each other of jobs that have become claimable: a parked dequeue need not poll for them."""

import asyncio
import itertools
from contextlib import suppress

import pytest

from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.mysql import MysqlShardFactory
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import Claim
from pinlater.server.backends.sharded import ShardedStore, ShardSpec, meet_servers
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits
from tests.support.bench import QUEUE, START_MS, ack_of, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_notifier
from tests.support.waiting import until

NEVER = PollIntervals(3600.0, 3600.0)


class Clock:
    def __init__(self):
        self.now = START_MS

    def __call__(self):
        return self.now


class Server:
    """A server that never polls, with two shards."""

    numbers = itertools.count(1)

    def __init__(self, prefix, clock):
        endpoint = endpoint_of(shared_service())
        factory = MysqlShardFactory(StoreOptions(3, clock), connections=4, database_prefix=prefix)
        self.store = ShardedStore("mysql", factory, poll_intervals=NEVER, now_ms=clock)
        self.store.update([ShardSpec(name, endpoint) for name in ("1", "2")])
        self.broker = Broker(self.store, RateLimits())
        name = f"server {next(self.numbers)}"
        self.notifier = make_notifier(self.broker, self.store.group, endpoint, name)
        self.broker.notifiers.append(self.notifier)
        self.broker.offers = self.notifier.offers
        self.task = asyncio.ensure_future(self.notifier.run())

    async def met(self, others):
        await until(lambda: len(self.notifier.ids) >= others)

    def dequeue(self):
        def new_claim():
            return Claim(f"host:1:1:worker:{next(self.numbers)}", 60_000)

        request = DequeueRequest((QUEUE,), 1, 1 << 20, new_claim, 60.0)
        return asyncio.ensure_future(self.broker.dequeue(request, Caller()))

    async def close(self):
        self.broker.end_all_waits()
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.store.close()


@pytest.fixture
def run():
    """Run a test with two servers that know each other."""

    def run(test):
        async def main():
            prefix, clock = fresh_prefix(), Clock()
            servers = [Server(prefix, clock) for _ in range(2)]
            try:
                await servers[0].store.create_queue(QUEUE)
                for server in servers:
                    await server.met(1)
                async with asyncio.timeout(50):
                    await test(*servers, clock)
            finally:
                for server in servers:
                    await server.close()

        asyncio.run(main())

    return run


async def parked(server):
    """Return a dequeue that waits."""
    dequeue = server.dequeue()
    await until(lambda: server.broker.parked_dequeues)
    return dequeue


def jobs_of(result):
    return [job.descriptor for jobs in result.jobs.values() for job in jobs]


def test_a_parked_dequeue_hears_of_a_job_that_another_server_stores(run):
    async def test(one, two, _):
        for _ in range(3):
            dequeue = await parked(two)
            [name] = await one.broker.enqueue(QUEUE, [new_job()])
            assert jobs_of(await dequeue) == [name]

    run(test)


def test_it_hears_of_a_retry_and_when_it_falls_due(run):
    async def test(one, two, clock):
        [name] = await one.broker.enqueue(QUEUE, [new_job(attempts=3)])
        found = await one.dequeue()
        dequeue = await parked(two)
        await one.broker.ack(QUEUE, [], [ack_of(name, claim=found.claim.descriptor, retry_delay_ms=300)])
        await asyncio.sleep(0.05)
        assert not dequeue.done()
        clock.now += 1000
        assert jobs_of(await dequeue) == [name]

    run(test)


def test_a_list_names_those_who_have_renewed_their_place_lately(run):
    async def test(one, _two, clock):
        guest = Listener(b"g" * 16, "127.0.0.1", 9, b"s" * 16)
        assert {listener.host for listener in await meet_servers(one.store.group, guest, 1000)} == {"127.0.0.1"}
        assert guest in await meet_servers(one.store.group, guest._replace(id=b"h" * 16), 1000)
        clock.now += 5000
        found = await meet_servers(one.store.group, guest._replace(id=b"i" * 16), 1000)
        assert not {b"g" * 16, b"h" * 16} & {listener.id for listener in found}
        assert len(found) == 2

    run(test)
