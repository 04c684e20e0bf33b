"""Calls that wait until jobs have finished."""

import asyncio

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.server.broker import endings as module
from pinlater.server.broker.endings import Endings
from pinlater.server.broker.parking import Caller

JOBS = ["q:s1:p1:1", "q:s1:p1:2"]


class Jobs:
    """Which jobs have not finished, and how often that was asked."""

    def __init__(self, *names):
        self.unfinished = set(names)
        self.asked = 0

    async def __call__(self, names):
        self.asked += 1
        return [name for name in names if name in self.unfinished]


def run(test, *, is_lonely=True):
    async def main():
        async with asyncio.timeout(30):
            await test(Endings(is_lonely=is_lonely), Jobs(*JOBS))

    asyncio.run(main())


async def asked(jobs, times):
    while jobs.asked < times:
        await asyncio.sleep(0)


def ended(endings, *names):
    endings.record("q", map(JobDescriptor.parse, names))


def test_a_call_waits_for_the_last_of_its_jobs():
    async def test(endings, jobs):
        waiting = asyncio.create_task(endings.wait(JOBS, jobs, 60, Caller()))
        for number, name in enumerate(JOBS, 1):
            await asked(jobs, number)
            assert not waiting.done()
            jobs.unfinished.discard(name)
            ended(endings, name)
        await waiting
        assert jobs.asked == 3
        assert not endings._waits

    run(test)


def test_jobs_that_end_while_the_store_is_asked_are_asked_for_again():
    async def test(endings, jobs):
        async def slow(names):
            found = await jobs(names)
            jobs.unfinished.clear()
            ended(endings, *JOBS)
            return found

        await endings.wait(JOBS, slow, 60, Caller())
        assert jobs.asked == 2

    run(test)


def test_jobs_that_have_finished_or_are_gone_are_not_waited_for():
    async def test(endings, jobs):
        jobs.unfinished.clear()
        await endings.wait(JOBS, jobs, 60, Caller())
        assert jobs.asked == 1

    run(test)


def test_other_jobs_wake_nobody():
    async def test(endings, jobs):
        waiting = asyncio.create_task(endings.wait(JOBS, jobs, 60, Caller()))
        await asked(jobs, 1)
        ended(endings, "q:s1:p1:3")
        for _ in range(10):
            await asyncio.sleep(0)
        assert jobs.asked == 1
        waiting.cancel()

    run(test)


def test_jobs_of_a_queue_that_nobody_waits_in_cost_nothing():
    async def test(endings, jobs):
        waiting = asyncio.create_task(endings.wait(JOBS, jobs, 60, Caller()))
        await asked(jobs, 1)
        others = iter([JobDescriptor.parse("other:s1:p1:1")])
        endings.record("other", others)
        assert next(others)  # it was not looked at
        jobs.unfinished.clear()
        ended(endings, *JOBS)
        await waiting
        assert not endings._waits

    run(test)


def test_jobs_that_end_at_other_servers_are_found_by_asking_the_store(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_POLL_SECONDS", 0.001)

    async def test(endings, jobs):
        waiting = asyncio.create_task(endings.wait(JOBS, jobs, 60, Caller()))
        await asked(jobs, 3)
        jobs.unfinished.clear()
        await waiting

    run(test, is_lonely=False)


@pytest.mark.parametrize("end", [Caller.interrupt, Caller.disconnect])
def test_another_call_or_the_end_of_the_connection_ends_the_wait(end):
    async def test(endings, jobs):
        caller = Caller()
        waiting = asyncio.create_task(endings.wait(JOBS, jobs, 60, caller))
        await asked(jobs, 1)
        end(caller)
        await waiting
        assert not endings._waits

    run(test)


def test_a_caller_that_cannot_wait_is_answered_at_once():
    async def test(endings, jobs):
        caller = Caller()
        caller.interrupt()
        await endings.wait(JOBS, jobs, 60, caller)
        assert jobs.asked == 0

    run(test)


def test_a_server_that_stops_answers_all_and_lets_nobody_wait():
    async def test(endings, jobs):
        waiting = [asyncio.create_task(endings.wait(JOBS, jobs, 60, Caller())) for _ in range(3)]
        await asked(jobs, 3)
        endings.stop()
        await asyncio.gather(*waiting)
        await endings.wait(JOBS, jobs, 60, Caller())

    run(test)
