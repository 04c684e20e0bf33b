"""What coroutines of jobs share in a process, and what they leave behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pinlater.worker.running.coroutines import Coroutines
from tests.unit.worker.running.runner_bench import ActLater, seen


def test_coroutines_outlive_a_loop_that_a_job_closed():
    coroutines = Coroutines()
    coroutines.run(asyncio.sleep(0))
    asyncio.get_event_loop().close()
    coroutines.run(asyncio.sleep(0))
    asyncio.get_event_loop().close()
    coroutines.close()


def test_the_end_waits_for_no_thread_that_a_coroutine_left_behind():
    may_end = threading.Event()

    async def leave_a_thread():
        asyncio.get_running_loop().run_in_executor(None, may_end.wait)

    coroutines = Coroutines()
    coroutines.run(leave_a_thread())
    coroutines.close()
    assert not may_end.is_set()
    may_end.set()


def test_later_coroutines_have_threads_though_earlier_ones_keep_as_many_as_there_are_busy():
    may_end = threading.Event()

    async def leave_all_threads():
        for _ in range(50):
            asyncio.get_running_loop().run_in_executor(None, may_end.wait)

    coroutines = Coroutines()
    coroutines.run(leave_all_threads())
    try:
        assert coroutines.run(asyncio.wait_for(asyncio.to_thread(int, "7"), 20)) == 7
    finally:
        may_end.set()
    coroutines.close()


async def shut_the_threads_down():
    await asyncio.get_running_loop().shutdown_default_executor()


async def shut_own_threads_down():
    with ThreadPoolExecutor(1) as own:
        asyncio.get_running_loop().set_default_executor(own)


async def shut_down_what_it_has_set():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize("harm", [shut_the_threads_down, shut_own_threads_down, shut_down_what_it_has_set])
def test_later_coroutines_have_threads_though_an_earlier_one_has_shut_them_down(harm):
    coroutines = Coroutines()
    coroutines.run(harm())
    for _ in range(2):
        assert coroutines.run(asyncio.wait_for(asyncio.to_thread(int, "7"), 20)) == 7
    coroutines.close()


def test_later_coroutines_have_threads_though_a_plain_job_has_shut_down_those_that_it_gave_their_loop():
    coroutines = Coroutines()
    loop = coroutines.run(running_loop())
    with ThreadPoolExecutor(1) as own:
        loop.set_default_executor(own)  # as a plain job can, by get_event_loop()
    assert coroutines.run(asyncio.to_thread(int, "7")) == 7
    coroutines.close()


async def running_loop():
    return asyncio.get_running_loop()


def test_a_task_that_heeds_no_cancellation_is_waited_for_only_by_the_job_that_left_it(monkeypatch, caplog):
    monkeypatch.setattr("pinlater.worker.running.coroutines._LEFTOVER_SECONDS", 0.01)
    left, may_end = [], threading.Event()

    async def heed_nothing():
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    async def leave_it():
        left.append(asyncio.create_task(heed_nothing()))
        await asyncio.sleep(0)

    coroutines = Coroutines()
    coroutines.run(leave_it())
    coroutines.run(asyncio.sleep(0))
    assert ["ignore their cancellation" in record.getMessage() for record in caplog.records] == [True]
    may_end.set()
    left[0].cancel()
    coroutines.run(asyncio.wait(left))
    coroutines.close()


def test_coroutines_run_on_one_loop_and_leave_nothing_behind(bench):
    assert bench.run(ActLater()) is None
    assert bench.run(ActLater()) is None
    first, second = seen
    assert first is second
    assert first.leftover.cancelled()
    outcome = bench.run(ActLater(), remaining=3)
    assert "KeyError: 'later'" in outcome.status
