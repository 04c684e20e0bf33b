"""Many parked dequeues: waking one costs the same, however many there are."""

import asyncio
import time
import tracemalloc

import pytest

from pinlater.server.broker.call_slots import CallSlots
from pinlater.server.broker.parking import Caller, ParkedCall, QueueState

GENEROUS_SECONDS = 30.0
"""Against work that grows with the square of the crowd, which took minutes; not for speed."""


class Waiting:
    __slots__ = ("_number", "_woken")
    limit = 2

    def __init__(self, number, woken):
        self._number = number
        self._woken = woken

    def wake(self):
        self._woken.append(self._number)


@pytest.fixture
def woken():
    return []


@pytest.fixture
def crowd(woken):
    """Make a queue that so many wait for."""

    def crowd(count):
        queue = QueueState(lambda: 0, 60.0, woken.append)
        for number in range(count):
            queue.add(Waiting(number, woken))
        return queue

    return crowd


def test_jobs_wake_as_many_as_they_serve_in_the_order_of_arrival(crowd, woken):
    queue = crowd(6)
    assert queue.jobs_arrived(3) == 0
    queue.wake_next()
    assert woken == [0, 1, 2]
    assert queue.jobs_arrived(9) == 3
    queue.wake_next()
    assert woken == [0, 1, 2, 3, 4, 5]


def test_a_new_job_touches_only_the_dequeues_that_it_wakes(crowd, woken):
    queue = crowd(50_000)
    tracemalloc.start()
    queue.jobs_arrived(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert woken == [0]
    assert peak < 50_000


def test_many_dequeues_that_wake_each_other_are_soon_served(crowd, woken):
    queue = crowd(500_000)
    began = time.monotonic()
    while len(woken) < 500_000:
        queue.wake_next()
        assert time.monotonic() - began < GENEROUS_SECONDS
    assert woken == list(range(500_000))


def test_a_caller_knows_for_how_long_its_calls_slept():
    async def main():
        loop, caller = asyncio.get_running_loop(), Caller()
        now, clock = [0.0], loop.time
        loop.time = lambda: clock() + now[0]
        for seconds in (20.0, 300.0):
            wait = ParkedCall(caller, 900)
            caller.park(wait)
            sleep = asyncio.ensure_future(wait.sleep())
            await asyncio.sleep(0)
            now[0] += seconds
            caller.interrupt()
            await sleep
            now[0] += 5000.0  # the answer takes long
            caller.unpark(wait)
        return caller.slept_seconds

    assert asyncio.run(main()) == pytest.approx(320, abs=GENEROUS_SECONDS)


class Parked:
    """A call that took the only slot, and sleeps."""

    def __init__(self, slots):
        self.caller = Caller(slots)
        assert slots.take()
        self.caller.has_slot = True
        self.wait = ParkedCall(self.caller, 900)
        self.task = asyncio.ensure_future(self.wait.sleep())

    @classmethod
    async def of(cls, slots):
        parked = cls(slots)
        await asyncio.sleep(0)
        return parked


def test_a_call_has_a_slot_when_it_is_not_parked():
    async def main():
        slots = CallSlots(1)
        first, second = await Parked.of(slots), await Parked.of(slots)
        first.wait.wake()
        await first.task
        second.wait.wake()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.task.done()
        first.caller.leave_slot()
        await second.task
        assert not slots.take()
        second.caller.leave_slot()
        assert [slots.take(), slots.take()] == [True, False]

    asyncio.run(main())


@pytest.mark.parametrize("is_woken", [False, True])
def test_a_parked_call_that_is_cancelled_has_no_slot_to_leave(is_woken):
    async def main():
        slots = CallSlots(1)
        parked, running = await Parked.of(slots), await Parked.of(slots)
        running.wait.wake()
        await running.task
        if is_woken:
            parked.wait.wake()
            await asyncio.sleep(0)
        parked.task.cancel()
        await asyncio.wait([parked.task])
        parked.caller.leave_slot()
        assert not slots.take()
        running.caller.leave_slot()
        assert [slots.take(), slots.take()] == [True, False]

    asyncio.run(main())
