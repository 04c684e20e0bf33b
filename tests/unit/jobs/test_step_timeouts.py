"""Time limits of steps, in the main thread, in other threads and on an event loop."""

import asyncio
import ctypes
import gc
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from pinlater import Constant, Job, JobSleeps, StepTimeout, retrying, timed
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.testing import run_inline
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.running import step_limits
from pinlater.worker.running.alarms import Alarms
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.run_services import RunServices
from pinlater.worker.running.thread_limits import ThreadLimits
from pinlater.worker.running.with_entries import is_entering, may_enter
from tests.support.server import environment
from tests.unit.jobs.workflow_attempts import InAWorker, Plain, Saver
from tests.unit.worker.fakes import batch_of

SOON, LATE = 0.02, 60
STRIKES = 300


def in_main_thread(function):
    return function()


def in_another_thread(function):
    done = Future()

    def run():
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # one that is stuck is not waited for
    return done.result(LATE)


@pytest.fixture(params=[in_main_thread, in_another_thread])
def call(request):
    return request.param


def blocks():
    for _ in range(100 * LATE):  # a call that blocks is cut short in the main thread only
        time.sleep(0.01)


def test_a_step_that_takes_too_long_has_failed(attempts, call):
    context = attempts.attempt()
    with pytest.raises(StepTimeout, match=r"step 'slow' ran for longer than its timeout of 0\.02 s"):
        call(lambda: context.step("slow", timed(blocks, timeout=SOON)))


def test_a_call_that_blocks_the_main_thread_is_cut_short(attempts):
    with pytest.raises(StepTimeout):
        attempts.attempt().step("slow", timed(time.sleep, timeout=SOON), LATE)


def test_a_step_that_is_quick_enough_is_a_step(attempts, call):
    context = attempts.attempt()
    assert call(lambda: context.step("quick", timed(divmod, timeout=LATE), 7, 2)) == [3, 1]
    assert context.step("none", divmod, 7, 2) == [3, 1]


def test_it_counts_as_a_failure_of_the_step_and_is_retried(attempts, call):
    step = retrying(blocks, attempts=2, backoff=Constant(60), timeout=SOON)
    context = attempts.attempt()
    with pytest.raises(JobSleeps) as caught:
        call(lambda: context.step("slow", step))
    assert isinstance(caught.value.__cause__, StepTimeout)
    attempts.slept()
    assert attempts.tries == {"slow": (1, 1)}
    with pytest.raises(StepTimeout):
        attempts.attempt().step("slow", step)


def test_afterwards_nothing_is_raised_any_more(attempts, call):
    context = attempts.attempt()

    def run():
        with pytest.raises(StepTimeout):
            context.step("slow", timed(blocks, timeout=SOON))
        context.step("swallows", timed(swallows, timeout=SOON))
        time.sleep(3 * SOON)

    call(run)


def swallows():
    try:
        blocks()
    except StepTimeout:
        return "well"


def test_the_limit_of_an_outer_step_is_not_that_of_the_inner_one(attempts, call):
    context = attempts.attempt()

    def outer():
        context.step("inner", retrying(blocks, attempts=9, timeout=LATE))

    with pytest.raises(StepTimeout, match="step 'outer'"):
        call(lambda: context.step("outer", timed(outer, timeout=SOON)))
    assert attempts.context.interruption is None, "the inner step is not retried by itself"


def test_the_limit_of_an_inner_step_leaves_the_outer_one_to_go_on(attempts, call):
    context = attempts.attempt()

    def outer():
        with pytest.raises(StepTimeout, match="step 'inner'"):
            context.step("inner", timed(blocks, timeout=SOON))
        return "well"

    assert call(lambda: context.step("outer", timed(outer, timeout=LATE))) == "well"


# Coroutines


async def waits():
    await asyncio.sleep(LATE)


async def times_out_by_itself():
    raise TimeoutError("mine")


def test_a_coroutine_is_cancelled_at_its_await(attempts):
    with pytest.raises(StepTimeout, match="step 'slow'"):
        asyncio.run(attempts.attempt().step("slow", timed(waits, timeout=SOON)))
    with pytest.raises(JobSleeps):
        asyncio.run(attempts.attempt().step("slow", retrying(waits, attempts=2, timeout=SOON)))
    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(attempts.attempt().step("own", timed(times_out_by_itself, timeout=LATE)))


def test_a_blocking_step_of_a_coroutine_is_limited_too(attempts, call):
    context = attempts.attempt()

    async def run():
        with pytest.raises(StepTimeout):
            context.step("slow", timed(blocks, timeout=SOON))
        await asyncio.sleep(0)

    call(lambda: asyncio.run(run()))


class Slow(Job, attempts=2, timeout=LATE):
    async def run(self, context):
        await asyncio.gather(
            context.step("quick", partial(asyncio.sleep, 0)),
            context.step("slow", retrying(waits, attempts=2, timeout=SOON, backoff=Constant(60))),
        )


def test_inline_and_beside_the_limits_of_the_job():
    with run_inline(Slow) as client:
        client.enqueue(Slow())
    assert [outcome.ending for outcome in client.outcomes] == ["interrupted", "failed"] * 2
    assert "StepTimeout: step 'slow' ran for longer" in client.outcomes[-1].status


# In a worker with threads


@contextmanager
def checked(alarms, waker):
    is_over = threading.Event()

    def check():
        while not is_over.is_set():
            left = alarms.check()
            select.select([waker], [], [], left)
            waker.clear()

    thread = threading.Thread(target=check)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        waker.set()
        thread.join()
        waker.close()


def test_threads_of_a_worker_have_their_alarms():
    waker = PipeEvent()
    alarms = Alarms(waker.set)
    services = RunServices(limit_step=ThreadLimits(Deadlines(never_kill), alarms).limit_step)
    context = RunContext(Plain(), batch_of("plain:s1:p1:7", bodies=[b"{}"]), 0, Saver(), services=services)
    with checked(alarms, waker), pytest.raises(StepTimeout, match="step 'slow'"):
        in_another_thread(lambda: context.step("slow", timed(blocks, timeout=SOON)))
    assert alarms.check() is None


@pytest.fixture
def quick_switches():
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.disable()  # an exception that is raised in a callback of the collector is lost, and Hypothesis has one
    yield
    gc.enable()
    sys.setswitchinterval(usual)


def strike_while_limits_are_set(alarms):
    """Have an exception raised in a thread that sets and lifts a limit again and again, wherever it is just then."""
    begun = threading.Event()

    def run():
        with suppress(StepTimeout):
            begun.set()
            while True:
                with step_limits.limit_by_alarm(alarms, StepDeadline("any", LATE)):
                    pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(LATE)
    strike(thread)
    thread.join(LATE)
    assert not thread.is_alive(), "an earlier one left something locked"


def strike(thread):
    """Have an exception raised where ``Alarms`` would raise one, while the thread does not run."""
    often = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    time.sleep(0)
    while (frame := sys._current_frames().get(thread.ident)) and (is_entering(frame) or may_enter(frame)):
        time.sleep(0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(StepTimeout))
    sys.setswitchinterval(often)


@pytest.mark.usefixtures("quick_switches")
def test_a_limit_that_strikes_while_another_is_set_or_lifted_leaves_those_of_other_threads():
    alarms = step_limits._watched_alarms()
    for _ in range(STRIKES):
        strike_while_limits_are_set(alarms)
    assert alarms.check() is None
    with pytest.raises(StepTimeout):
        in_another_thread(lambda: InAWorker().attempt().step("slow", timed(blocks, timeout=SOON)))


PROFILED = """
import sys, threading
from pinlater import Job, StepTimeout, timed
from pinlater.testing import FakeContext

class Plain(Job):
    def run(self, context):
        pass

def spin():
    while True:
        pass

def work():
    try:
        FakeContext(Plain()).step("slow", timed(spin, timeout=0.01))
    except StepTimeout:
        print("struck")

thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.setprofile(lambda *_: None)
(lambda: None)()
sys.setprofile(None)
print("profiled")
"""


def test_a_program_can_be_profiled_after_a_limit_has_struck():
    """Python 3.11 stands still if something is left to be raised."""
    program = [sys.executable, "-c", PROFILED]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=LATE, check=False)
    assert done.stdout.split() == ["struck", "profiled"], done.stderr


def test_a_system_without_such_timers_uses_alarms(monkeypatch):
    monkeypatch.setattr(step_limits, "_main_timer", lambda: None)
    with pytest.raises(StepTimeout):
        InAWorker().attempt().step("slow", timed(blocks, timeout=SOON))


def test_while_the_main_thread_saves_the_limit_waits():
    attempts, calls = InAWorker(), []
    context = attempts.attempt()
    is_saving = iter([True] * 5)
    limits = step_limits.StepLimits(lambda: calls.append(1) or next(is_saving, False))
    context.limit_step = limits.limit
    with pytest.raises(StepTimeout):
        context.step("slow", timed(blocks, timeout=SOON))
    assert len(calls) == 6


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_limit_is_a_time(seconds):
    with pytest.raises(ValueError, match="more than 0"):
        timed(blocks, timeout=seconds)
    with pytest.raises(ValueError, match="more than 0"):
        retrying(blocks, attempts=2, timeout=seconds)


def test_a_function_by_itself_has_no_limit():
    assert timed(divmod, timeout=SOON)(7, 2) == (3, 1)
