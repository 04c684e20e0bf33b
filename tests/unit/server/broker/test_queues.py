"""Dequeues of several queues: no job is lost, and no dequeue sleeps beside a claimable job."""

import asyncio
import gc
import time
import weakref
from types import SimpleNamespace

import pytest

from pinlater.errors import NoHealthyShards, QueueNotFound
from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import Claim, Dequeued
from pinlater.server.backends.store import Capabilities
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits

CLAIM = Claim("h:1:1:w:1", 1000)
OFTEN, NEVER = PollIntervals(0.005, 0.005), PollIntervals(3600.0, 3600.0)


class Store:
    """Queues of bodies, and what was asked of them.

    Attributes:
        jobs: bodies by queue.
        errors: what a claim from a queue raises.
        claims: the queues that jobs were claimed from, in order.
        looks: the queues of each look.
    """

    def __init__(self, *queues, is_serial=False, pauses=OFTEN):
        self.capabilities = Capabilities("fake", is_serial=is_serial, poll_intervals=pauses)
        self.jobs = {queue: [] for queue in queues}
        self.errors = {}
        self.claims = []
        self.looks = []
        self.now_ms = lambda: int(time.time() * 1000)

    async def dequeue_jobs(self, queue, limit, claim, *, max_bytes, want_next_due=False, max_running=None):
        self.claims.append(queue)
        await asyncio.sleep(0)
        if queue in self.errors:
            raise self.errors[queue]
        jobs = self.jobs[queue]
        taken, self.jobs[queue] = jobs[:limit], jobs[limit:]
        claimed = [DequeuedJob(f"{queue}:s1:p1:1", body, 1, 1, 0, 0) for body in taken]
        return Dequeued(claimed, None, has_more=len(taken) == limit)

    async def enqueue_jobs(self, queue, bodies):
        self.jobs[queue] += bodies
        return [f"{queue}:s1:p1:1" for _ in bodies]

    def jobs_arrived(self, queue, due_ms, locations):
        pass

    async def first_due(self, queues):
        self.looks.append(list(queues))
        return {queue: 0 if self.jobs[queue] else None for queue in queues}


class Bench:
    def __init__(self, store):
        self.store = store
        self.limits = RateLimits()
        self.broker = Broker(store, self.limits)

    def dequeue(self, *queues, limit=1, wait=30.0):
        return self.broker.dequeue(DequeueRequest(queues, limit, 1_000_000, lambda: CLAIM, wait), Caller())

    async def parked(self, *queues, **order):
        """Return a dequeue that waits by now."""
        waiting = self.broker.parked_dequeues
        task = asyncio.create_task(self.dequeue(*queues, **order))
        await until(lambda: self.broker.parked_dequeues > waiting)
        return task

    def stored(self, queue, *bodies):
        """Store jobs as another server does, which has told us of them."""
        self.store.jobs[queue] += bodies
        self.broker.on_remote_jobs(queue, None)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


def run(scenario, store):
    async def whole():
        bench = Bench(store)
        async with asyncio.timeout(60):
            await scenario(bench)
        bench.broker.end_all_waits()

    asyncio.run(whole())


def bodies(dequeued):
    return [job.body for jobs in dequeued.jobs.values() for job in jobs]


@pytest.mark.parametrize("error", [QueueNotFound("gone"), NoHealthyShards("away"), RuntimeError("a bug")])
@pytest.mark.parametrize("wait", [0.0, 30.0])
def test_claims_of_earlier_queues_are_handed_out_when_a_later_queue_fails(error, wait):
    async def scenario(bench):
        bench.store.jobs["q"] += [b"claimed"]
        bench.store.errors["r"] = error
        assert bodies(await bench.dequeue("q", "r", "s", limit=5, wait=wait)) == [b"claimed"]
        with pytest.raises(type(error)):
            await bench.dequeue("q", "r", limit=5, wait=0.0)

    run(scenario, Store("q", "r", "s"))


def test_a_queue_that_does_not_exist_keeps_nobody_from_the_jobs_of_the_next():
    async def scenario(bench):
        bench.store.errors["gone"] = QueueNotFound("gone")
        bench.store.jobs["q"] = [b"1", b"2"]
        for body in (b"1", b"2"):
            assert bodies(await bench.dequeue("gone", "q")) == [body]
        with pytest.raises(QueueNotFound):  # so that a worker creates it
            await bench.dequeue("gone", "q")

    run(scenario, Store("gone", "q"))


@pytest.mark.parametrize("is_serial", [True, False])
def test_a_dequeue_of_two_queues_strands_no_job_of_the_second(is_serial):
    async def scenario(bench):
        for _ in range(25):
            both, second = await bench.parked("q", "r"), await bench.parked("r")
            bench.stored("r", b"of r")  # wakes the one that came first, which finds enough in q
            bench.stored("q", b"of q")
            assert bodies(await both) == [b"of q"]
            assert bodies(await second) == [b"of r"]

    run(scenario, Store("q", "r", is_serial=is_serial, pauses=NEVER))


def test_a_job_without_notification_is_found_even_if_the_queue_seemed_empty():
    async def scenario(bench):
        waiting = await bench.parked("q")
        bench.store.jobs["q"] += [b"unheard"]
        assert bodies(await waiting) == [b"unheard"]

    for is_serial in (True, False):
        run(scenario, Store("q", is_serial=is_serial))


def test_a_queue_is_assumed_empty_for_a_limited_time_even_if_reads_fail(monkeypatch):
    monkeypatch.setattr("pinlater.server.broker.broker.MIN_KNOWN_EMPTY_SECONDS", 0.1)

    async def scenario(bench):
        async def fail(queues):
            raise NoHealthyShards("away")

        bench.store.first_due = fail
        waiting = await bench.parked("q")
        bench.store.jobs["q"] += [b"unheard"]
        assert bodies(await waiting) == [b"unheard"]

    for is_serial in (True, False):
        run(scenario, Store("q", is_serial=is_serial))


def test_after_an_error_others_that_wait_ask_later_and_get_the_job():
    async def scenario(bench):
        first, second = await bench.parked("q"), await bench.parked("q")
        bench.store.errors["q"] = NoHealthyShards("away")
        bench.stored("q", b"x")
        with pytest.raises(NoHealthyShards):
            await first
        assert not second.done()
        del bench.store.errors["q"]
        assert bodies(await second) == [b"x"]

    run(scenario, Store("q", pauses=NEVER))


def test_a_dequeue_waiting_for_a_deleted_queue_ends_at_the_next_poll():
    async def scenario(bench):
        waiting = await bench.parked("q")
        bench.store.errors["q"] = QueueNotFound("gone")

        async def nothing(queues):
            return {}

        bench.store.first_due = nothing
        with pytest.raises(QueueNotFound):
            await waiting

    run(scenario, Store("q"))


@pytest.mark.parametrize("error", [QueueNotFound("gone"), NoHealthyShards("away")])
def test_a_deleted_queue_is_forgotten_before_and_after_a_job_of_it_falls_due(error, monkeypatch):
    monkeypatch.setattr("pinlater.server.broker.parking._UNCERTAIN_RETRY_MS", 2)

    async def scenario(bench):
        clock = [0]
        bench.store.now_ms = lambda: clock[0]
        bench.broker = Broker(bench.store, bench.limits)
        waiting, other = await bench.parked("q"), await bench.parked("r")
        bench.broker.on_remote_jobs("q", 2)
        bench.store.errors["q"], claims = error, len(bench.store.claims)
        bench.stored("q", b"job")
        await until(lambda: len(bench.store.claims) > claims)
        bench.broker.on_deleted("q")  # while that claim is under way
        with pytest.raises(type(error)):
            await waiting
        bench.broker.on_remote_jobs("r", 3)
        clock[0], bench.store.jobs["r"] = 1000, [b"due after it"]
        assert bodies(await other) == [b"due after it"]
        assert bench.broker._queues.get("q") is None

    run(scenario, Store("q", "r", pauses=NEVER))


def test_a_deleted_queue_leaves_nothing_in_memory_until_its_jobs_would_be_due():
    async def scenario(bench):
        assert bodies(await bench.dequeue("q", wait=0.0)) == []
        bench.broker.on_remote_jobs("q", int(time.time() * 1000) + 3_600_000)
        state = weakref.ref(bench.broker._queues.get("q"))
        bench.broker.on_deleted("q")
        gc.collect()
        assert state() is None

    run(scenario, Store("q", pauses=NEVER))


@pytest.mark.parametrize("wait", [0.0, 30.0])
def test_names_that_dequeues_invent_while_the_store_fails_leave_nothing_behind(wait):
    async def scenario(bench):
        assert bodies(await bench.dequeue("q", wait=0.0)) == []
        for number in range(50):
            bench.store.errors[f"none_{number}"] = NoHealthyShards("away")
            with pytest.raises(NoHealthyShards):
                await bench.dequeue(f"none_{number}", wait=wait)
        assert [*bench.broker._queues._queues] == ["q"]

    run(scenario, Store("q", pauses=NEVER))


def test_after_an_error_a_job_of_a_queue_that_exists_is_offered_to_other_servers(monkeypatch):
    monkeypatch.setattr("pinlater.server.broker.parking._UNCERTAIN_RETRY_MS", 2)

    async def scenario(bench):
        offered = asyncio.Event()
        bench.broker.offers = SimpleNamespace(
            fallen_due=lambda _queue, _due_ms, wake: wake(), offer=lambda *_: offered.set()
        )
        waiting = await bench.parked("q")
        bench.store.errors["q"] = NoHealthyShards("away")
        bench.stored("q", b"job")  # only this dequeue was woken for it
        with pytest.raises(NoHealthyShards):
            await waiting
        await offered.wait()

    run(scenario, Store("q", pauses=NEVER))


def test_a_dequeue_without_wait_asks_a_shared_store():
    async def scenario(bench):
        for number in range(5):
            assert bodies(await bench.dequeue("q", wait=0.0)) == []
            bench.store.jobs["q"] += [b"%d" % number]
            assert bodies(await bench.dequeue("q", wait=0.0)) == [b"%d" % number]

    run(scenario, Store("q"))


@pytest.mark.parametrize("queues", [["q"], ["q", "r"]])
def test_clients_that_poll_empty_queues_are_answered_by_what_one_look_for_all_has_found(queues):
    async def scenario(bench):
        for _ in range(3):
            assert bodies(await bench.dequeue(*queues, wait=0.0)) == []
        claims, looks = len(bench.store.claims), len(bench.store.looks)
        while len(bench.store.looks) < looks + 5:
            assert bodies(await bench.dequeue(*queues, wait=0.0)) == []
            await asyncio.sleep(0.001)
        assert len(bench.store.claims) == claims
        bench.stored("q", b"told")
        assert bodies(await bench.dequeue(*queues, wait=0.0)) == [b"told"]
        for _ in range(4):
            assert bodies(await bench.dequeue(*queues, wait=0.0)) == []
        bench.store.jobs["q"] += [b"untold"]  # its notification was lost
        async with asyncio.timeout(30):
            while not (found := bodies(await bench.dequeue(*queues, wait=0.0))):
                await asyncio.sleep(0.001)
        assert found == [b"untold"]

    run(scenario, Store("q", "r"))


def test_clients_that_poll_learn_that_the_store_is_away():
    async def scenario(bench):
        for _ in range(5):
            assert bodies(await bench.dequeue("q", wait=0.0)) == []

        async def away(queues):
            raise NoHealthyShards("away")

        bench.store.errors["q"], bench.store.first_due = NoHealthyShards("away"), away

        async def poll():
            async with asyncio.timeout(30):
                while True:
                    assert bodies(await bench.dequeue("q", wait=0.0)) == []
                    await asyncio.sleep(0.001)

        with pytest.raises(NoHealthyShards):
            await poll()

    run(scenario, Store("q"))


def test_a_queue_that_is_polled_no_more_is_looked_at_no_more(monkeypatch):
    monkeypatch.setattr("pinlater.server.broker.parking._POLLS_SECONDS", 0.05)

    async def scenario(bench):
        for _ in range(4):
            await bench.dequeue("q", wait=0.0)
        looker = bench.broker._dequeues.poller
        assert looker._task is not None
        await until(lambda: looker._task is None)

    run(scenario, Store("q"))


@pytest.mark.parametrize("count", [20, 2000])
def test_one_poll_serves_all_idle_queues(count):
    queues = [f"q{number}" for number in range(count)]

    async def scenario(bench):
        waiting = [await bench.parked(*queues, wait=3600.0) for _ in range(3)]
        looks, claims = len(bench.store.looks), len(bench.store.claims)
        assert claims == count, "those who came later believe the first one"
        await until(lambda: len(bench.store.looks) >= looks + 20)
        assert all(sorted(look) == sorted(queues) for look in bench.store.looks[looks + 1 :])
        assert len(bench.store.claims) == claims
        bench.stored(queues[-1], b"x")
        assert bodies(await waiting[0]) == [b"x"]
        assert set(bench.store.claims[claims:]) == {queues[-1]}, "only the queue that the job came to is asked"
        bench.broker.end_all_waits()
        assert [bodies(await task) for task in waiting[1:]] == [[], []]

    run(scenario, Store(*queues, pauses=PollIntervals(0.05, 0.05)))


def test_rare_jobs_are_polled_for_rarely():
    async def scenario(bench):
        began = asyncio.get_running_loop().time()
        waiting = await bench.parked("q")
        await until(lambda: len(bench.store.looks) >= 5)
        assert asyncio.get_running_loop().time() - began > 0.004 * (1.25**5 - 1) / 0.25
        bench.broker.end_all_waits()
        await waiting

    run(scenario, Store("q", pauses=PollIntervals(0.004, 5.0)))


def test_without_waiting_dequeues_nothing_is_polled():
    async def scenario(bench):
        waiting = await bench.parked("r", "q")
        bench.stored("q", b"x")
        await waiting
        looker = bench.broker._dequeues.poller
        await until(lambda: looker._task is None)

    run(scenario, Store("q", "r"))


def test_a_poll_leaves_a_job_alone_that_has_just_fallen_due():
    async def scenario(bench):
        clock = [0]
        bench.store.now_ms = lambda: clock[0]
        bench.broker = Broker(bench.store, bench.limits)
        waiting = await bench.parked("q")
        bench.store.jobs["q"] += [b"of another server"]
        looks = len(bench.store.looks)
        await until(lambda: len(bench.store.looks) > looks + 3)
        assert not waiting.done()
        clock[0] = 5000
        assert bodies(await waiting) == [b"of another server"]
        assert bench.store.claims == ["q", "q"]

    run(scenario, Store("q", pauses=PollIntervals(0.005, 0.005, leeway=1.0)))


def test_a_poll_that_left_a_job_alone_looks_again_as_soon_as_nobody_can_be_on_the_way(monkeypatch):
    monkeypatch.setattr("pinlater.server.broker.polling._GROWTH", 1e9)  # the next regular poll comes in an hour
    clock = [0]

    class JobOfAnotherServer(Store):
        async def first_due(self, queues):
            if self.looks:
                clock[0] = 5000
            else:
                self.jobs["q"] += [b"of another server"]
            return await super().first_due(queues)

    async def scenario(bench):
        bench.store.now_ms = lambda: clock[0]
        bench.broker = Broker(bench.store, bench.limits)
        assert bodies(await bench.dequeue("q", wait=300.0)) == [b"of another server"]
        assert len(bench.store.looks) == 2

    run(scenario, JobOfAnotherServer("q", pauses=PollIntervals(0.005, 3600.0, leeway=0.01)))


def test_a_shard_whose_clock_is_behind_is_not_asked_all_the_time_for_a_job_that_is_not_due_there():
    class Behind(Store):
        is_due = False

        async def dequeue_jobs(self, *arguments, **options):
            if self.is_due:
                return await super().dequeue_jobs(*arguments, **options)
            self.claims.append("q")
            await asyncio.sleep(0)
            return Dequeued([], due_ms, has_more=False)

    due_ms = int(time.time() * 1000) - 500

    async def scenario(bench):
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = await bench.parked("q")
        for _ in range(2000):
            await asyncio.sleep(0)
        assert len(bench.store.claims) <= 3 + (loop.time() - began) / 0.02
        bench.store.is_due, bench.store.jobs["q"] = True, [b"job"]
        assert bodies(await waiting) == [b"job"]

    run(scenario, Behind("q", pauses=NEVER))


@pytest.mark.parametrize("is_serial", [True, False])
def test_a_dequeue_that_was_woken_is_the_only_one_to_ask(is_serial):
    async def scenario(bench):
        first, second = await bench.parked("q", limit=2), await bench.parked("q", limit=2)
        asked = len(bench.store.claims)
        bench.stored("q", b"job")
        third = asyncio.create_task(bench.dequeue("q", limit=2))
        assert bodies(await first) == [b"job"]
        await until(lambda: bench.broker.parked_dequeues == 2)
        assert len(bench.store.claims) == asked + 1
        for number, task in enumerate((second, third)):
            bench.stored("q", b"job %d" % number)
            assert bodies(await task) == [b"job %d" % number]

    run(scenario, Store("q", is_serial=is_serial, pauses=NEVER))
