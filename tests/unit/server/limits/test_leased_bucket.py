"""Rate limits shared by several servers: tokens are fetched from the store."""

import asyncio

import pytest

from pinlater.errors import NoHealthyShards
from pinlater.server.backends.token_bucket import spend
from pinlater.server.limits.leased_bucket import LeasedBucket
from pinlater.server.limits.rate_limits import RateLimits


class Store:
    """Has the tokens of all queues, and the time."""

    def __init__(self):
        self.seconds = 1000.0
        self.questions = []
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self._moments = {}

    def __call__(self):
        return self.seconds

    async def acquire_tokens(self, queue, rate, wanted):
        self.questions.append(wanted)
        await self.gate.wait()
        if self.is_away:
            raise NoHealthyShards("away")
        now_us = round(self.seconds * 1e6)
        tokens, self._moments[queue] = spend(self._moments.get(queue, 0), now_us, rate, wanted)
        return tokens

    def server(self, **rates):
        """Return the limits of one more server."""
        limits = RateLimits(
            self, lambda queue, rate, now: LeasedBucket(self.acquire_tokens, queue, rate, now, clock=self)
        )
        limits.update(rates or {"q": 10})
        return limits


@pytest.fixture
def run():
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def store(run):
    async def make():
        return Store()

    return run(make())


async def settled():
    """Let what was given back arrive."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_servers_take_from_one_bucket(run, store):
    async def scenario():
        one, two = store.server(), store.server()
        assert [await one.acquire("q", 7), await two.acquire("q", 7), await one.acquire("q", 7)] == [7, 3, 0]
        assert one.seconds_until_next("q") == pytest.approx(0.1)
        store.seconds += 0.5
        assert [await two.acquire("q", 100), await one.acquire("q", 100)] == [5, 0]
        two.give_back("q", 2)
        await settled()
        store.seconds += 0.1
        assert await one.acquire("q", 100) == 3

    run(scenario())


def test_one_server_alone_may_use_the_whole_rate(run, store):
    async def scenario():
        one, _ = store.server(), store.server()
        await one.acquire("q", 100)
        for _ in range(10):
            store.seconds += 1.0
            assert await one.acquire("q", 100) == 10

    run(scenario())


def test_a_replacement_finds_what_was_taken(run, store):
    async def scenario():
        await store.server().acquire("q", 10)
        assert await store.server().acquire("q", 10) == 0

    run(scenario())


def test_an_answer_without_jobs_costs_nothing(run, store):
    async def scenario():
        one, two = store.server(), store.server()
        for _ in range(5):
            one.give_back("q", await one.acquire("q", 10))
            await settled()
            assert one.seconds_until_next("q") == 0
        assert await two.acquire("q", 10) == 10

    run(scenario())


def test_a_question_waits_for_what_is_being_given_back(run, store):
    async def scenario():
        limits = store.server()
        for _ in range(5):
            limits.give_back("q", await limits.acquire("q", 10))
        assert await limits.acquire("q", 10) == 10

    run(scenario())


def test_what_others_give_back_is_found_soon_however_slow_the_rate(run, store):
    async def scenario():
        one, two = store.server(q=0.01), store.server(q=0.01)
        assert await one.acquire("q", 1) == 1
        assert await two.acquire("q", 1) == 0
        one.give_back("q", 1)
        await settled()
        store.seconds += two.seconds_until_next("q")
        assert store.seconds <= 1001.0
        assert await two.acquire("q", 1) == 1

    run(scenario())


def test_small_dequeues_of_a_fast_queue_do_not_all_ask_the_store(run, store):
    async def scenario():
        limits = store.server(q=1000)
        assert [await limits.acquire("q", 1) for _ in range(100)] == [1] * 100
        assert len(store.questions) <= 5
        store.seconds += 60
        assert await limits.acquire("q", 5000) <= 1020

    run(scenario())


def test_a_store_without_tokens_is_not_asked_again_at_once(run, store):
    async def scenario():
        limits = store.server(q=500)
        await limits.acquire("q", 1000)
        asked = len(store.questions)
        for _ in range(50):
            await limits.acquire("q", 1)
        assert len(store.questions) == asked
        assert 0 < limits.seconds_until_next("q") <= 0.1
        store.seconds += limits.seconds_until_next("q")
        assert await limits.acquire("q", 1) == 1

    run(scenario())


def test_all_who_ask_at_once_get_what_there_is(run, store):
    async def scenario():
        limits = store.server()
        store.gate.clear()
        takes = [asyncio.create_task(limits.acquire("q", 2)) for _ in range(7)]
        await asyncio.sleep(0)
        takes[0].cancel()
        await asyncio.sleep(0)
        store.gate.set()
        taken = await asyncio.gather(*takes, return_exceptions=True)
        assert isinstance(taken[0], asyncio.CancelledError)
        assert taken[1:] == [2, 2, 2, 2, 2, 0]

    run(scenario())


def test_who_come_while_the_store_is_asked_are_asked_for_together(run, store):
    async def scenario():
        limits = store.server(q=100)
        store.gate.clear()
        takes = [asyncio.create_task(limits.acquire("q", 1))]
        while not store.questions:
            await asyncio.sleep(0)
        takes += [asyncio.create_task(limits.acquire("q", 5)) for _ in range(10)]
        await asyncio.sleep(0)
        store.gate.set()
        assert await asyncio.gather(*takes) == [1] + [5] * 10
        assert len(store.questions) == 2

    run(scenario())


def test_a_store_that_is_away_fails_all_who_asked_and_is_asked_again_by_the_next(run, store):
    async def scenario():
        limits = store.server()
        store.is_away = True
        store.gate.clear()
        takes = [asyncio.create_task(limits.acquire("q", 2)) for _ in range(5)]
        await asyncio.sleep(0)
        store.gate.set()
        failures = await asyncio.gather(*takes, return_exceptions=True)
        assert {type(failure) for failure in failures} == {NoHealthyShards}
        assert len(store.questions) == 1
        store.is_away = False
        assert await limits.acquire("q", 10) == 10
        store.is_away = True
        limits.give_back("q", 10)  # it is tried, and nobody is told
        await settled()

    run(scenario())


def test_a_changed_rate_hands_out_nothing_extra(run, store):
    async def scenario():
        one, two = store.server(), store.server()
        await one.acquire("q", 10)
        for limits in (one, two):
            limits.update({"q": 1000})
        assert [await limits.acquire("q", 100) for limits in (one, two)] == [0, 0]
        store.seconds += 0.02
        assert await two.acquire("q", 100) == 20

    run(scenario())


def test_queues_have_buckets_of_their_own_and_pauses_ask_nobody(run, store):
    async def scenario():
        limits = store.server(q=10, r=10, p=0)
        assert [await limits.acquire(queue, 20) for queue in "qrp"] == [10, 10, 0]
        assert len(store.questions) == 2
        assert await limits.acquire("free", 7) == 7

    run(scenario())
