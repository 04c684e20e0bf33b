"""Several servers, at each of which dequeues wait: how many of them ask the store for a job that one of them gets."""

import asyncio
import itertools
import random
import time
from functools import partial
from hashlib import blake2b

import pytest

from pinlater.model.keys import JobKey
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker import broker as brokers
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits
from pinlater.server.peer_processes import job_offers
from pinlater.server.peer_processes.job_offers import JobOffers
from tests.support.bench import QUEUE, new_job
from tests.support.fleets import mysql_fleets, redis_fleets
from tests.support.notifiers import FakeNotifier
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("patience")

SERVERS = 3
WAITING = 4
NEVER = PollIntervals(3600.0, 3600.0)
OFTEN = PollIntervals(0.05, 0.3, leeway=0.02)


@pytest.fixture(params=[mysql_fleets, redis_fleets])
def fleet(request, tmp_path, monkeypatch):
    """Run a scenario with servers on one store."""
    monkeypatch.setattr(brokers, "MIN_KNOWN_EMPTY_SECONDS", 3600.0)

    def run(scenario, *, pauses=NEVER, loss=0.0, names="12", has_offers=False, behind_ms=0):
        make, close = request.param(tmp_path, names=names, pauses=pauses)

        async def whole():
            fleet = Fleet(make, loss, lambda: now_ms() - behind_ms, has_offers=has_offers)
            await fleet.brokers[0].backend.create_queue(QUEUE)
            async with asyncio.timeout(100):
                await scenario(fleet)
            await fleet.close()

        try:
            asyncio.run(whole())
        finally:
            close()

    return run


def now_ms():
    return int(time.time() * 1000)


class Link:
    """What a server sends to the others of a fleet, some of which is lost; a frozen one receives nothing.

    Attributes:
        own_id: of the server.
        offers: to the others.
        is_frozen: whether the server receives nothing.
    """

    def __init__(self, fleet, own_id, broker):
        self.fleet = fleet
        self.own_id = own_id
        self.broker = broker
        self.is_frozen = False
        self.offers = broker.offers = JobOffers(self, broker)
        broker.notifiers.append(FakeNotifier(self.notify))

    @property
    def ids(self):
        return [other for other in self.fleet.links if other != self.own_id]

    def notify(self, queue, due_ms, locations, count):
        if due_ms is None:
            self.offers.offer(queue, count, locations())
        else:
            self.announce(queue, locations(), self.ids, due_ms)

    def announce(self, queue, locations, to, due_ms=None):
        for peer in to:
            self.deliver(lambda link: link.broker.on_remote_jobs(queue, due_ms, locations), peer)

    def announce_to_all(self, queue, locations):
        self.announce(queue, locations, self.ids)

    def send(self, message, to):
        self.deliver(lambda link: link.offers.receive(message), to)

    def deliver(self, receive, to):
        if random.random() >= self.fleet.loss and not self.fleet.links[to].is_frozen:
            asyncio.get_running_loop().call_soon(receive, self.fleet.links[to])


class Fleet:
    """Servers that announce jobs to each other, or offer them.

    Attributes:
        brokers: of the servers.
        links: between servers that offer jobs to each other, by their ids.
        loss: share of the messages that are lost.
        claims: how often they have asked the store for jobs.
        claimers: the server of each of these times.
    """

    def __init__(self, make, loss, clock, *, has_offers):
        self.claimers = []
        stores = [make() for _ in range(SERVERS)]
        for store in stores:
            store.now_ms = clock
        self.brokers = [
            Broker(store, RateLimits(), partial(self.observe, number)) for number, store in enumerate(stores)
        ]
        self.loss = loss
        self._number = 0
        self._tasks = []
        self.links = {}
        for number, broker in enumerate(self.brokers):
            if has_offers:
                self.links[b"%d" % number] = Link(self, b"%d" % number, broker)
            else:
                broker.notifiers.append(FakeNotifier(partial(self.announce, broker)))

    @property
    def claims(self):
        return len(self.claimers)

    def observe(self, server, operation, _seconds):
        if operation == "dequeue":
            self.claimers.append(server)

    def announce(self, sender, queue, due_ms, locations, _count):
        for broker in self.brokers:
            if broker is not sender and random.random() >= self.loss:
                broker.on_remote_jobs(queue, due_ms, locations())

    def claim(self):
        self._number += 1
        return Claim(f"h:1:1:w:{self._number}", 60_000)

    def dequeue(self, broker, caller=None, *, queues=(QUEUE,), limit=1, max_bytes=10**6, wait=3600.0):
        return broker.dequeue(DequeueRequest(queues, limit, max_bytes, self.claim, wait), caller or Caller())

    async def park(self, broker, **order):
        """Return a dequeue that waits at a server by now."""
        waiting = broker.parked_dequeues
        task = asyncio.create_task(self.dequeue(broker, **order))
        self._tasks.append(task)
        await until(lambda: broker.parked_dequeues != waiting)
        return task

    async def close(self):
        for broker in self.brokers:
            broker.end_all_waits()
        await asyncio.gather(*self._tasks)
        for broker in self.brokers:
            await broker.backend.close()


def bodies(result):
    return [job.body for jobs in result.jobs.values() for job in jobs]


def count(tasks):
    return sum(len(jobs) for task in tasks for jobs in task.result().jobs.values())


def test_a_job_for_which_a_dequeue_waits_where_it_is_stored_costs_one_claim(fleet):
    async def scenario(fleet):
        lines = [[await fleet.park(broker) for _ in range(WAITING)] for broker in fleet.brokers]
        parked = fleet.claims
        for number in range(20):
            broker, line = fleet.brokers[number % SERVERS], lines[number % SERVERS]
            await broker.enqueue(QUEUE, [new_job(priority=1 + number % 3)])
            await line.pop(0)
            line.append(await fleet.park(broker))
        await asyncio.sleep(0.1)  # for claims in vain, if there are any
        assert fleet.claims - parked == 20

    fleet(scenario)


def test_the_last_of_several_jobs_wakes_no_dequeue_in_vain(fleet):
    async def scenario(fleet):
        here, there, _ = fleet.brokers
        tasks = [await fleet.park(there) for _ in range(WAITING)]
        parked = fleet.claims
        await here.enqueue(QUEUE, [new_job(priority=number % 3 + 1) for number in range(WAITING - 1)])
        await until(lambda: sum(task.done() for task in tasks) >= WAITING - 1)
        await asyncio.sleep(0.05)
        assert fleet.claims - parked == WAITING - 1
        await here.enqueue(QUEUE, [new_job()])
        await tasks[-1]
        assert count(tasks) == WAITING

    fleet(scenario)


def test_a_claim_of_all_that_is_due_tells_when_the_next_job_is(fleet):
    async def scenario(fleet):
        store = fleet.brokers[0].backend

        async def claim(limit):
            found = await store.dequeue_jobs(QUEUE, limit, fleet.claim(), want_next_due=True)
            return len(found.jobs), found.has_more, found.next_due_ms

        later = now_ms() + 10**7
        await store.enqueue_jobs(QUEUE, [new_job(priority=2) for _ in range(4)])
        await store.enqueue_jobs(QUEUE, [new_job(priority=3), new_job(priority=1), new_job(run_after_ms=later)])
        assert await claim(1) == (1, True, None)
        assert await claim(2) == (2, True, None)
        assert await claim(1) == (1, True, None)
        assert await claim(1) == (1, True, None)
        assert await claim(1) == (1, False, later)
        await store.enqueue_jobs(QUEUE, [new_job(run_after_ms=now_ms() - 5000)])  # before the last scan's end
        await store.enqueue_jobs(QUEUE, [new_job(run_after_ms=now_ms() - 10**6)])
        assert await claim(1) == (1, True, None)
        assert await claim(1) == (1, False, later)
        assert await claim(1) == (0, False, later)

    fleet(scenario)


@pytest.mark.parametrize("has_offers", [False, True], ids=["announced", "offered"])
@pytest.mark.parametrize("loss", [0.0, 0.5, 1.0])
def test_no_job_waits_for_a_dequeue_that_has_gone_or_a_server_that_is_frozen(fleet, loss, has_offers):
    async def scenario(fleet):
        here, *others = fleet.brokers
        tasks = [await fleet.park(broker) for broker in others for _ in range(WAITING)]
        gone = [Caller() for _ in range(WAITING)]
        left = [await fleet.park(here, caller=caller) for caller in gone]
        for caller in gone:
            await here.enqueue(QUEUE, [new_job()])  # wakes one of those here
            caller.disconnect()
        # Jobs of a server that is stopped before it wakes or tells anybody.
        await here.backend.enqueue_jobs(QUEUE, [new_job() for _ in range(WAITING)])
        while True:
            got = count(task for task in [*tasks, *left] if task.done())
            if got == 2 * WAITING:
                break
            await asyncio.sleep(0.01)
        assert await here.backend.count_jobs(QUEUE, JobFilter(PENDING)) == 0

    fleet(scenario, pauses=OFTEN, loss=loss, has_offers=has_offers)


def hold_polls(broker):
    """Return what lets a server poll: on a busy machine, one of its polls may be due at any time."""
    may_poll, first_due = asyncio.Event(), broker.backend.first_due

    async def first_due_then(queues):
        await may_poll.wait()
        return await first_due(queues)

    broker.backend.first_due = first_due_then
    return may_poll


@pytest.mark.parametrize("behind_ms", [0, 50], ids=["due", "due in a moment"])
def test_a_job_that_another_server_is_on_the_way_to_wakes_nobody_here(fleet, behind_ms):
    async def scenario(fleet):
        here, there, _ = fleet.brokers
        may_poll = hold_polls(here)
        line = [await fleet.park(here) for _ in range(WAITING)]
        parked = fleet.claims
        ahead = now_ms() - 1000
        await there.backend.enqueue_jobs(QUEUE, [new_job(b"theirs", run_after_ms=ahead)])
        await here.backend.enqueue_jobs(QUEUE, [new_job(b"another", run_after_ms=now_ms() + behind_ms)])
        await here.enqueue(QUEUE, [new_job(b"ours", run_after_ms=ahead + 1)])
        assert bodies(await line[0]) == [b"theirs"]
        await asyncio.sleep(0.1)  # for claims in vain, if there are any
        assert fleet.claims - parked == 1
        may_poll.set()
        # Should the other server have died meanwhile, they are found in time.
        assert sorted([bodies(await line[1]), bodies(await line[2])]) == [[b"another"], [b"ours"]]

    fleet(scenario, pauses=PollIntervals(1.0, 1.0, leeway=0.5), names="1")


def test_what_a_full_answer_leaves_is_handed_out_at_once(fleet):
    async def scenario(fleet):
        here = fleet.brokers[0]
        tasks = [await fleet.park(here, limit=5, max_bytes=30_000) for _ in range(WAITING)]
        await here.enqueue(QUEUE, [new_job(b"x" * 20_000) for _ in range(3)])
        await until(lambda: sum(task.done() for task in tasks) >= 3)

    fleet(scenario, pauses=PollIntervals(3600.0, 3600.0, leeway=3600.0))


def test_a_job_that_a_claim_lets_through_wakes_the_next_dequeue(fleet):
    async def scenario(fleet):
        here = fleet.brokers[0]
        tasks = [await fleet.park(here) for _ in range(2)]
        await here.enqueue(QUEUE, [new_job(key=JobKey("key", rate="1/s")) for _ in range(2)])
        await asyncio.gather(*tasks)

    fleet(scenario, pauses=PollIntervals(3600.0, 3600.0, leeway=3600.0))


@pytest.fixture
def refused(monkeypatch):
    """Let a server offer a job in vain; then one waits for the next elsewhere, but offers are not repeated for long."""
    monkeypatch.setattr(job_offers, "_REFUSED_SECONDS", 3600.0)

    async def refused(fleet, here, there):
        await here.enqueue(QUEUE, [new_job()])
        await until(lambda: here.offers is None or not here.offers._offers)
        await fleet.dequeue(there, wait=0)
        return await fleet.park(there)

    return refused


async def let_through(fleet, here):
    """Claim a job that lets the next of its key through."""
    await here.backend.enqueue_jobs(QUEUE, [new_job(key=JobKey("key", rate="1000/s")) for _ in range(2)])
    await fleet.dequeue(here, wait=0)


async def leave_a_job(fleet, here):
    """Let a dequeue be woken for a job, and leave it, since it has enough of another queue."""
    await here.backend.create_queue("before")
    task = await fleet.park(here, queues=("before", QUEUE))
    for queue in ("before", QUEUE):
        await here.backend.enqueue_jobs(queue, [new_job()])
    for queue in ("before", QUEUE):
        here.on_claimable(queue, 1, ())
    await task


async def release(_, here):
    """Let the store release a claim whose answer was lost."""
    await here.backend.enqueue_jobs(QUEUE, [new_job()])
    here.on_claimable(QUEUE, None, [])


@pytest.mark.parametrize("has_offers", [False, True], ids=["announced", "offered"])
@pytest.mark.parametrize("news", [let_through, leave_a_job, release])
def test_a_job_that_only_one_server_knows_of_reaches_a_dequeue_elsewhere(fleet, refused, news, has_offers):
    async def scenario(fleet):
        here, there, _ = fleet.brokers
        task = await refused(fleet, here, there)
        await news(fleet, here)
        await task

    fleet(scenario, has_offers=has_offers)


def test_a_job_that_falls_due_where_nobody_waits_reaches_a_dequeue_elsewhere(fleet, refused):
    async def scenario(fleet):
        here, there, _ = fleet.brokers
        task = await refused(fleet, here, there)
        due_ms = next(moment for moment in itertools.count(now_ms() + 1000) if first_to_wake(fleet, moment) == b"0")
        await here.backend.enqueue_jobs(QUEUE, [new_job(run_after_ms=due_ms)])
        await fleet.dequeue(here, wait=0)  # from now on, this server knows of the job
        await task

    fleet(scenario, has_offers=True)


def first_to_wake(fleet, due_ms):
    """Return the id of the server that wakes a dequeue for a job due then, if it has one."""
    moment = f"{QUEUE} {due_ms}".encode()
    return min(fleet.links, key=lambda server: blake2b(moment, digest_size=8, key=server).digest())


@pytest.fixture
def patient(monkeypatch):
    """Let servers wait for answers however busy the machine is."""
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (30.0, 30.0))


async def all_done(tasks, number):
    await until(lambda: sum(task.done() for task in tasks) >= number)


@pytest.mark.parametrize("delay_ms", [0, 50], ids=["due", "due later"])
def test_a_job_is_claimed_by_one_server_wherever_dequeues_wait_for_it(fleet, patient, delay_ms):
    async def scenario(fleet):
        here, *others = fleet.brokers
        tasks = [await fleet.park(broker) for broker in others for _ in range(WAITING)]
        for number in range(1, 2 * WAITING + 1):
            parked = fleet.claims
            await here.enqueue(QUEUE, [new_job(run_after_ms=delay_ms and now_ms() + delay_ms)])
            await all_done(tasks, number)
            await asyncio.sleep(0.05)  # for claims in vain, if there are any
            assert len(set(fleet.claimers[parked:])) == 1
            assert delay_ms or fleet.claims - parked == 1  # a server that has no dequeue offers the job once more

    # Were a shard's clock behind those of the servers, it would be asked again, maybe by another server.
    fleet(scenario, has_offers=True, behind_ms=delay_ms and 300)


def test_jobs_that_fall_due_together_reach_dequeues_at_all_servers(fleet, patient):
    async def scenario(fleet):
        tasks = [await fleet.park(broker) for broker in fleet.brokers for _ in range(WAITING)]
        due_ms = now_ms() + 300
        for broker in fleet.brokers:
            await broker.enqueue(QUEUE, [new_job(run_after_ms=due_ms) for _ in range(WAITING)])
        await asyncio.gather(*tasks)
        assert count(tasks) == SERVERS * WAITING

    fleet(scenario, has_offers=True)


def test_a_dequeue_that_has_enough_of_another_queue_leaves_its_job_to_another_server(fleet, patient):
    async def scenario(fleet):
        here, there, _ = fleet.brokers
        await here.backend.create_queue("before")
        both, other = await fleet.park(here, queues=("before", QUEUE)), await fleet.park(there)
        for queue in ("before", QUEUE):
            await here.backend.enqueue_jobs(queue, [new_job(queue.encode())])
        for queue in ("before", QUEUE):
            here.on_claimable(queue, 1, ())
        assert bodies(await both) == [b"before"]
        assert bodies(await other) == [QUEUE.encode()]

    fleet(scenario, has_offers=True)


def test_a_job_passes_a_server_by_that_cannot_get_at_its_shard(fleet, patient):
    async def scenario(fleet):
        here, there, third = fleet.brokers
        for broker, only in ((here, "1"), (there, "2")):
            broker.backend.update([handle.spec for handle in broker.backend.group.registry if handle.name == only])
        for _ in range(10):
            await fleet.park(there)
        tasks = [await fleet.park(third) for _ in range(10)]
        for task in tasks:
            await here.enqueue(QUEUE, [new_job()])
            await task

    fleet(scenario, has_offers=True)


@pytest.mark.parametrize("delay_ms", [None, 150], ids=["due", "due later"])
def test_a_job_passes_a_frozen_server_by(fleet, monkeypatch, delay_ms):
    monkeypatch.setattr(job_offers, "_SILENT_SECONDS", 0.0)  # it is asked again and again

    async def scenario(fleet):
        here, frozen, there = fleet.brokers
        fleet.links[b"1"].is_frozen = True
        for _ in range(WAITING):
            await fleet.park(frozen)
        tasks = [await fleet.park(there) for _ in range(WAITING)]
        for number in range(1, WAITING + 1):
            await here.enqueue(QUEUE, [new_job(run_after_ms=delay_ms and now_ms() + delay_ms)])
            await all_done(tasks, number)

    fleet(scenario, has_offers=True)
