"""Limits of a job's run time, within its process."""

import asyncio
import signal
import threading
import time

import pytest

from pinlater.errors import JobTimeout
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job
from pinlater.model.backoff import Constant
from pinlater.worker.running import limits, run_limits
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.timer import SharedTimer
from pinlater.worker.session.outcome import Failure
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of, new_row


class Wait(Job, queue="waits", timeout=0.25, kill_after=30, backoff=Constant(7)):
    how: str

    def run(self, context):
        ways[self.how]()


class WaitLater(Job, queue="waits", timeout=0.25, backoff=Constant(7)):
    how: str

    async def run(self, context):
        await ways[self.how]()


class OnlyHard(Job, queue="waits", kill_after=30):
    how: str

    def run(self, context):
        ways[self.how]()


class Stall(Job, queue="waits", stall_after=0.25, backoff=Constant(7)):
    how: str

    def run(self, context):
        context.checkpoint()
        ways[self.how]()


class StallLater(Job, queue="waits", stall_after=0.25, backoff=Constant(7)):
    how: str

    async def run(self, context):
        context.checkpoint()
        await ways[self.how]()


class Signs(Job, queue="waits", stall_after=30):
    def run(self, context):
        for cursor in range(3):
            context.checkpoint()
            context.progress(cursor)
            seen.append(context.step("step", int))


class Free(Job, queue="waits"):
    def run(self, context):
        seen.append("free")


class FakeSaver(InBody):
    is_draining = False
    is_saving = False

    def save(self, batch, position, encode):
        return True


seen = []
saver = FakeSaver()


def heed():
    try:
        time.sleep(20)
    except JobTimeout as error:
        seen.append(f"{type(error).__name__}: {error}")


def save():
    time.sleep(0.5)
    seen.append("saved")
    saver.is_saving = False
    time.sleep(20)


def spin():
    while True:
        pass


async def sleep_later():
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise


async def spin_later():
    await asyncio.sleep(0)
    try:
        spin()
    except JobTimeout:
        seen.append("in the midst")
        raise


async def cancelled_by_itself():
    raise asyncio.CancelledError


def use_alarms():
    """As a job's library may do, for a limit of its own."""
    signal.signal(signal.SIGALRM, lambda *_: seen.append("the job's own alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    time.sleep(0.05)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(20)


def use_alarms_and_spin():
    signal.setitimer(signal.ITIMER_REAL, 0)
    spin()


ways = {
    "use_alarms": use_alarms,
    "use_alarms_and_spin": use_alarms_and_spin,
    "sleep": lambda: time.sleep(20),
    "spin": spin,
    "heed": heed,
    "save": save,
    "return": lambda: seen.append("returned"),
    "short": lambda: time.sleep(0.3),
    "sleep_later": sleep_later,
    "spin_later": spin_later,
    "cancelled_by_itself": cancelled_by_itself,
}


@pytest.fixture
def wishes():
    return []


@pytest.fixture
def run(wishes):
    seen.clear()
    saver.is_saving = False
    codec = JobCodec([Wait, WaitLater, OnlyHard, Stall, StallLater, Signs, Free])
    row = new_row()
    runner = Runner(codec, saver, limits.TimeLimits(wishes.append, saver))

    def run(job):
        run.batch = batch_of("waits:s1:p1:7", bodies=[encode_body(job)], row=row)
        outcome = runner.run(run.batch, 0, time.monotonic_ns())
        run.batch.finish([0])
        return outcome

    yield run
    runner.close()


def run_in_time(run, how):
    """Run a job until it ends before its limit: a machine may stand still for so long."""
    while run(Wait(how=how)) is not None:
        pass


@pytest.mark.parametrize("job", [Wait(how="sleep"), Wait(how="spin"), WaitLater(how="spin_later")])
def test_a_job_is_interrupted_wherever_it_is(run, job):
    outcome = run(job)
    assert isinstance(outcome, Failure)
    assert "JobTimeout: it ran for longer than its timeout of 0.25 s" in outcome.status
    assert "test_limits.py" in outcome.status, "where it was"
    assert 'limits.py", line' not in outcome.status.replace("test_limits.py", "")
    assert outcome.delay_ms == 7000
    assert outcome.delay_ms is not None


def test_a_coroutine_that_waits_is_cancelled(run):
    assert "JobTimeout: it ran for longer" in run(WaitLater(how="sleep_later")).status
    assert seen == ["cancelled"]


def test_other_cancellations_are_no_timeout(run):
    assert "CancelledError" in run(WaitLater(how="cancelled_by_itself")).status


def test_a_job_may_heed_the_limit_and_succeed(run):
    assert run(Wait(how="heed")) is None
    assert seen == ["JobTimeout: it ran for longer than its timeout of 0.25 s"]


@pytest.mark.parametrize("job", [Stall(how="sleep"), Stall(how="spin"), StallLater(how="spin_later")])
def test_a_job_that_stands_still_is_interrupted(run, job):
    outcome = run(job)
    assert "JobStalled: it gave no sign of progress for 0.25 s, its stall_after" in outcome.status
    assert "test_limits.py" in outcome.status, "where it was"
    assert 'allowance.py", line' not in outcome.status
    assert (outcome.delay_ms, outcome.ending) == (7000, "timed_out")


def test_a_coroutine_that_stands_still_is_cancelled(run):
    assert "JobStalled: it gave no sign" in run(StallLater(how="sleep_later")).status
    assert seen == ["cancelled"]


def test_a_job_may_heed_that_it_stands_still_and_succeed(run):
    assert run(Stall(how="heed")) is None
    assert seen == ["JobStalled: it gave no sign of progress for 0.25 s, its stall_after"]


def test_signs_put_off_the_kill(run, wishes, monkeypatch):
    monkeypatch.setattr(run_limits, "_MOVE_SECONDS", 0.0)
    assert run(Signs()) is None
    *moments, last = wishes
    assert len(moments) > 6
    assert moments[0] < moments[-1] == pytest.approx(time.monotonic() + 30 + 10, abs=20)
    assert run.batch.area.kill_ns[0] == int(moments[-1] * 1e9)
    assert last is None


def test_a_call_to_the_server_is_not_cut_off(run):
    saver.is_saving = True
    assert "JobTimeout" in run(Wait(how="save")).status
    assert seen == ["saved"]


@pytest.fixture
def usual_alarm():
    usual = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, usual)


@pytest.mark.usefixtures("usual_alarm")
def test_a_job_may_use_alarms_and_is_interrupted_all_the_same(run):
    while not seen:  # on a busy machine, its limit may strike before its own alarm does
        assert "JobTimeout: it ran for longer" in run(Wait(how="use_alarms")).status
    assert "JobTimeout: it ran for longer" in run(Wait(how="use_alarms_and_spin")).status
    assert {*seen} == {"the job's own alarm"}


def test_where_there_is_no_other_timer_the_alarm_is_used(run, monkeypatch):
    monkeypatch.setattr(limits, "new_timer", SharedTimer)
    usual = signal.getsignal(signal.SIGALRM)
    for how in ("sleep", "return"):
        run_in_time(run, how) if how == "return" else run(Wait(how=how))
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is usual
    assert seen == ["returned"]


def test_the_limit_ends_with_the_job(run):
    run_in_time(run, "return")
    time.sleep(0.4)
    assert run(Free()) is None
    assert seen == ["returned", "free"]


def test_the_master_is_told_of_the_hard_limit(run, wishes):
    began = time.monotonic()
    assert run(OnlyHard(how="short")) is None
    first, last = wishes
    assert began + 29.9 < first < time.monotonic() + 30.1
    assert began + 29.9 < run.batch.area.kill_ns[0] / 1e9 <= first, "the keeper learns whose limit it was"
    assert last is None
    began = time.monotonic()
    run(WaitLater(how="sleep_later"))
    assert began + 10 < wishes[2] < time.monotonic() + 10.2, "10 s after the soft one"
    assert wishes[3:] == [None]


def test_without_limits_nobody_is_told_anything(run, wishes):
    assert run(Free()) is None
    assert wishes == []


def test_a_fork_of_the_job_does_not_lift_the_limit(run, wishes, monkeypatch):
    monkeypatch.setattr("pinlater.worker.running.limits.getpid", lambda: -1)
    assert run(OnlyHard(how="return")) is None
    assert len(wishes) == 1


def test_in_another_thread_there_is_no_soft_limit(run):
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(run(Wait(how="short"))))
    thread.start()
    thread.join(20)
    assert outcomes == [None]
