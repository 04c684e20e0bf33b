"""Polls of all queues of a MySQL store: what they find, and what they cost beside the work of the monitor."""

import asyncio
import itertools
import time
from functools import partial

import pytest

from pinlater.model.keys import JobKey
from pinlater.server.backends.mysql import MysqlShardFactory
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.poll_intervals import POLLS_BESIDE_DATAGRAMS, PollIntervals
from pinlater.server.backends.records import Claim
from pinlater.server.backends.sharded import (
    ClockUpdater,
    ShardedStore,
    ShardSpec,
    StoreClock,
    poll_all,
)
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.background.monitor import Monitor
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.clock import elapsed_seconds
from pinlater.server.config.settings import Settings
from pinlater.server.limits.rate_limits import RateLimits
from pinlater.server.metrics import Metrics
from tests.support.bench import new_job
from tests.support.fleets import mysql_fleets
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_notifier
from tests.support.notifiers import FakeNotifier
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("patience")

QUEUES = [f"idle{number}" for number in range(60)]
WITHIN_MS = 3000
CLAIM = Claim("h:1:1:w:1", 1)


@pytest.fixture
def run(tmp_path):
    """Run a scenario with the store of a server."""
    make, close = mysql_fleets(tmp_path, pauses=POLLS_BESIDE_DATAGRAMS)

    def run(scenario):
        async def whole():
            store = make()
            await asyncio.gather(*map(store.create_queue, QUEUES))
            try:
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(whole())

    yield run
    close()


@pytest.fixture
def asked(monkeypatch):
    """Collects the statements that are sent."""
    asked, run = [], MysqlConnection.run

    async def recorded(self, *statements):
        asked.extend(statements)
        return await run(self, *statements)

    monkeypatch.setattr(MysqlConnection, "run", recorded)
    return asked


def now_ms():
    return int(time.time() * 1000)


def test_it_finds_the_queues_with_jobs_that_are_due_or_will_be_soon(run):
    async def scenario(store):
        due_ms = {"due": now_ms() - 60_000, "soon": now_ms() + 1000, "later": now_ms() + 60_000}
        for queue, run_after_ms in (due_ms | {"both": due_ms["soon"], "taken": due_ms["due"]}).items():
            await store.create_queue(queue)
            for priority in (1, 3):
                await store.enqueue_jobs(queue, [new_job(run_after_ms=run_after_ms, priority=priority)] * 3)
        await store.enqueue_jobs("both", [new_job(run_after_ms=due_ms["due"], priority=2)])
        await store.dequeue_jobs("taken", 6, CLAIM)
        await store.create_queue("held up")
        waiting = [new_job(key=JobKey("key", max_running=1)) for _ in range(2)]
        await store.enqueue_jobs("held up", waiting)
        await store.dequeue_jobs("held up", 1, CLAIM)
        await store.create_queue("gone")
        await store.enqueue_jobs("gone", [new_job()])
        await store.delete_queue("gone")
        poll = await poll_all(store.group, WITHIN_MS)
        assert poll.first_due_ms == {"due": due_ms["due"], "soon": due_ms["soon"], "both": due_ms["due"]}
        assert (poll.shards, poll.is_whole) == ({"1", "2"}, True)

    run(scenario)


def test_it_began_before_what_it_has_found(run):
    async def scenario(store):
        before = elapsed_seconds()
        poll = await poll_all(store.group, WITHIN_MS)
        assert before <= poll.asked_at <= elapsed_seconds()

    run(scenario)


async def round_of_monitor(store):
    poll, reaped, *_ = await asyncio.gather(
        poll_all(store.group, WITHIN_MS),
        store.reap_expired(100, server_age_ms=10**9, quiet_ms=0),
        store.collect_finished(3_600_000, 3_600_000, 100),
        store.forget_results(100),
        store.forget_statistics(100),
        store.relay_messages(),
    )
    return poll, [one.retried for one in reaped]


def test_with_a_round_of_the_monitor_and_the_clock_it_is_one_statement_a_shard(run, asked):
    async def scenario(store):
        for _ in range(2):  # the first may leave a record of the clock
            await round_of_monitor(store)
        asked.clear()
        await round_of_monitor(store)
        await ClockUpdater(store.group, StoreClock()).update()
        assert len(asked) == store.shards, asked
        await store.enqueue_jobs(QUEUES[0], [new_job(attempts=3)])
        await store.dequeue_jobs(QUEUES[0], 1, CLAIM)
        await store.enqueue_jobs(QUEUES[1], [new_job()])
        await asyncio.sleep(0.01)
        poll, retried = await round_of_monitor(store)
        assert (poll.first_due_ms.keys(), retried) == ({QUEUES[1]}, [1])

    run(scenario)


def test_the_clock_that_comes_with_it_counts(run):
    async def scenario(store):
        clocks = [handle.shard.clock for handle in store.group.registry]
        began = elapsed_seconds()
        while max(clock.age_seconds for clock in clocks) > elapsed_seconds() - began:
            await poll_all(store.group, WITHIN_MS)
        assert all(abs(clock.now_ms() - time.time() * 1000) < 60_000 for clock in clocks)

    run(scenario)


def test_a_poll_that_fails_keeps_no_claim_from_expiring(run, monkeypatch):
    bind = Queries.bind

    def broken(self, name, /, **values):
        return b"SELECT 1 is no" if name == "due_queues" else bind(self, name, **values)

    monkeypatch.setattr(Queries, "bind", broken)

    async def scenario(store):
        await store.enqueue_jobs(QUEUES[0], [new_job(attempts=3)])
        await store.dequeue_jobs(QUEUES[0], 1, CLAIM)
        await asyncio.sleep(0.01)
        error, reaped = await asyncio.gather(
            poll_all(store.group, WITHIN_MS),
            store.reap_expired(100, server_age_ms=10**9, quiet_ms=0),
            return_exceptions=True,
        )
        assert [one.retried for one in reaped] == [1]
        assert "no" in str(error)

    run(scenario)


OFTEN = PollIntervals(0.5, 1.5)
"""Less than the time between two turns of a server, and much more than that between the turns of all."""

TURN_SECONDS = 0.6


class Server:
    """A server with a monitor, and dequeues that wait for all queues."""

    numbers = itertools.count(1)

    def __init__(self, prefix):
        endpoint = endpoint_of(shared_service())
        factory = MysqlShardFactory(StoreOptions(3), connections=4, database_prefix=prefix)
        self.store = ShardedStore("mysql", factory, poll_intervals=OFTEN, now_ms=StoreClock().now_ms)
        self.store.update([ShardSpec(name, endpoint) for name in ("1", "2")])
        self.broker = Broker(self.store, RateLimits(), poll_all=partial(poll_all, self.store.group))
        name = f"server {next(self.numbers)}"
        self.notifier = make_notifier(self.broker, self.store.group, endpoint, name)
        self.broker.offers = self.notifier.offers
        self.broker.notifiers.append(FakeNotifier(notify_polled=self.notify_polled))
        self.rounds = 0
        self.polls = 0
        self.first_due, self.store.first_due = self.store.first_due, self.count_poll
        settings = Settings(monitor_interval_seconds=TURN_SECONDS)
        self.monitor = Monitor(
            self.store,
            self.broker,
            settings,
            Metrics(),
            StatisticsBuffer(),
            rank=lambda: self.notifier.rank,
        )
        self.tasks = [asyncio.create_task(task) for task in (self.notifier.run(), self.monitor.run())]

    async def count_poll(self, queues):
        self.polls += 1
        return await self.first_due(queues)

    def notify_polled(self, poll, now_ms):
        self.rounds += 1
        self.notifier.notify_polled(poll, now_ms)

    async def parked(self, queues):
        number = next(self.numbers)
        request = DequeueRequest(queues, 1, 1 << 20, lambda: Claim(f"h:1:1:w:{number}", 60_000), 3600.0)
        task = asyncio.create_task(self.broker.dequeue(request, Caller()))
        await until(lambda: self.broker.parked_dequeues)
        return task

    async def close(self):
        self.broker.end_all_waits()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.store.close()


def test_servers_that_hear_of_polls_make_none_of_their_own():
    async def scenario():
        prefix = fresh_prefix()
        servers = [Server(prefix) for _ in range(3)]
        await asyncio.gather(*map(servers[0].store.create_queue, QUEUES))
        await until(lambda: all(server.notifier.rank.servers == 3 for server in servers))
        waits = [await server.parked(QUEUES) for server in servers]
        while True:  # until they poll rarely: the pauses grow, and on a busy machine a turn may be late
            rounds, polls = [server.rounds for server in servers], sum(server.polls for server in servers)
            late = asyncio.get_running_loop().time() + 2 * OFTEN.longest
            await until(
                lambda rounds=rounds, late=late: (
                    asyncio.get_running_loop().time() > late
                    and all(server.rounds > before for server, before in zip(servers, rounds, strict=True))
                )
            )
            if sum(server.polls for server in servers) == polls:
                break
        await servers[0].store.enqueue_jobs(QUEUES[7], [new_job(b"unheard of")])
        done, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert [job.body for task in done for jobs in task.result().jobs.values() for job in jobs] == [b"unheard of"]
        assert len(others) == 2
        for server in servers:
            server.broker.end_all_waits()
        await asyncio.gather(*others)  # one may be asking the store once more
        for server in servers:
            await server.close()

    async def whole():
        async with asyncio.timeout(150):
            await scenario()

    asyncio.run(whole())
