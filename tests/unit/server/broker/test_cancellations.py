"""Workers that ask which running jobs are to stop."""

import asyncio

import pytest

from pinlater.server.broker.cancellations import Cancellations
from pinlater.server.broker.parking import Caller


class Clock:
    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


class CountingInt(int):
    compared = 0

    def __lt__(self, other):
        self.compared += 1
        return super().__lt__(other)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cancellations(clock):
    return Cancellations(clock)


def test_each_job_is_named_once_to_whoever_asks_from_where_the_last_answer_ended(cancellations, clock):
    cancellations.record(["q:s1:p1:1", "q:s1:p1:2"])
    found, asked_ms = cancellations.since(0)
    assert found == ["q:s1:p1:1", "q:s1:p1:2"]
    assert cancellations.since(asked_ms)[0] == []
    cancellations.record(["q:s1:p1:3"])  # within the same millisecond
    assert cancellations.since(asked_ms)[0] == ["q:s1:p1:3"]
    clock.now += 10
    cancellations.record(["q:s1:p1:3"])
    assert cancellations.since(0)[0] == ["q:s1:p1:1", "q:s1:p1:2", "q:s1:p1:3"]


def test_what_is_asked_right_after_an_answer_is_not_hidden_by_it(cancellations, clock):
    _, asked_ms = cancellations.since(0)
    cancellations.record(["q:s1:p1:1"])
    assert cancellations.since(asked_ms)[0] == ["q:s1:p1:1"]
    assert asked_ms < clock.now


def test_they_are_forgotten_after_a_minute(cancellations, clock):
    cancellations.record(["q:s1:p1:1"])
    clock.now += 61_000
    cancellations.record(["q:s1:p1:2"])
    assert cancellations.since(0)[0] == ["q:s1:p1:2"]


def test_who_asks_for_what_is_new_goes_through_no_more_than_that(cancellations):
    """All workers ask again at each cancellation."""
    cancellations.record(f"q:s1:p1:{number}" for number in range(5000))
    _, asked_ms = cancellations.since(0)
    cancellations.record(["q:s1:p1:7000", "q:s1:p1:7001"])
    moment = CountingInt(asked_ms)
    assert cancellations.since(moment)[0] == ["q:s1:p1:7000", "q:s1:p1:7001"]
    assert moment.compared <= 3


def test_who_waits_hears_of_a_job_and_waits_no_more(cancellations):
    async def main():
        caller = Caller()
        waiting = asyncio.create_task(cancellations.wait(0, 60, caller))
        await asyncio.sleep(0)
        assert not waiting.done()
        cancellations.record(["q:s1:p1:1"])
        async with asyncio.timeout(30):
            found, _ = await waiting
        assert found == ["q:s1:p1:1"]
        assert not cancellations._waits

    asyncio.run(main())


@pytest.mark.parametrize("end", [Caller.interrupt, Caller.disconnect])
def test_another_call_or_the_end_of_the_connection_ends_the_wait(cancellations, end):
    async def main():
        caller = Caller()
        waiting = asyncio.create_task(cancellations.wait(0, 60, caller))
        await asyncio.sleep(0)
        end(caller)
        async with asyncio.timeout(30):
            assert (await waiting)[0] == []
        assert not cancellations._waits

    asyncio.run(main())


def test_a_server_that_stops_answers_all_and_lets_nobody_wait(cancellations):
    async def main():
        waiting = [asyncio.create_task(cancellations.wait(0, 60, Caller())) for _ in range(3)]
        await asyncio.sleep(0)
        cancellations.stop()
        async with asyncio.timeout(30):
            assert [found for found, _ in await asyncio.gather(*waiting)] == [[]] * 3
            assert (await cancellations.wait(0, 60, Caller()))[0] == []

    asyncio.run(main())


def test_a_wait_ends_in_its_time(cancellations):
    async def main():
        async with asyncio.timeout(30):
            assert (await cancellations.wait(0, 0.001, Caller()))[0] == []

    asyncio.run(main())
