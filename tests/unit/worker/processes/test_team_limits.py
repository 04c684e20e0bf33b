"""Limits of jobs that run beside others."""

import gc
import io
import logging
import threading
import time
import weakref

import pytest

from pinlater.errors import JobTimeout, StepTimeout
from pinlater.jobs import steps
from pinlater.jobs.options import JobOptions
from pinlater.worker import logs
from pinlater.worker.running.alarms import Alarms, _class_of
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.run_limits import LimitExceeded, RunLimits
from pinlater.worker.session.outcome import Interruption
from tests.unit.worker.processes.team_jobs import (
    DEADLINE_SECONDS,
    Awaited,
    AwaitedStalled,
    AwaitedTimed,
    OnlyHard,
    PlainStalled,
    PlainTimed,
    gate,
    seen,
    task_team,
    thread_team,
)


@pytest.mark.parametrize("job", [PlainTimed(how="spin"), PlainTimed(how="coroutine"), AwaitedTimed(how="sleep")])
def test_a_job_past_its_limit_in_a_thread_is_interrupted(threads, job):
    for _ in range(3):
        [outcome] = threads.run(job)
        assert "JobTimeout: it ran for longer than its timeout of 0.1 s" in outcome.status
        assert "team_jobs.py" in outcome.status, "where it was"


@pytest.mark.parametrize("kind", [PlainTimed, AwaitedTimed])
def test_a_job_that_ends_waits_for_its_steps_no_longer_than_its_limit(threads, tasks, kind, monkeypatch):
    monkeypatch.setattr(steps, "_PATIENCE_SECONDS", 3600)
    for team in (threads, *([tasks] if kind is AwaitedTimed else [])):
        [outcome] = team.run(kind(how="end beside a step"))
        assert isinstance(outcome, Interruption)


def test_nothing_is_kept_of_limits_that_have_struck():
    """Each job may be enqueued with limits of its own."""
    kind = weakref.ref(_class_of(LimitExceeded(JobTimeout, "it ran for longer than its timeout of 0.1 s")))
    gc.collect()
    assert kind() is None


def test_a_job_past_its_limit_as_a_task_is_cancelled_and_others_are_not(tasks):
    tasks.start(Awaited(how="gate"))
    [outcome] = tasks.run(AwaitedTimed(how="sleep"))
    assert "JobTimeout: it ran for longer than its timeout of 0.1 s" in outcome.status
    assert "in sleep_later" in outcome.status
    assert seen[-1] == "cancelled"
    gate.set()
    assert tasks.outcomes(1) == {"jobs:s1:p1:1": None}


@pytest.mark.parametrize(
    ("make", "job"),
    [
        (thread_team, PlainStalled(how="spin")),
        (thread_team, PlainStalled(how="coroutine")),
        (thread_team, AwaitedStalled(how="sleep")),
        (task_team, AwaitedStalled(how="sleep")),
    ],
)
def test_a_job_that_stands_still_is_stopped_and_others_are_not(teams, make, job):
    bench = teams(make)
    bench.start(Awaited(how="gate"))
    for _ in range(3):
        [outcome] = bench.run(job)
        assert "JobStalled: it gave no sign of progress for 0.1 s, its stall_after" in outcome.status
        assert "team_jobs.py" in outcome.status, "where it was"
    gate.set()
    assert bench.outcomes(1) == {"jobs:s1:p1:1": None}


@pytest.mark.parametrize("make", [thread_team, task_team])
def test_other_timeouts_are_no_limit(teams, make):
    [outcome] = teams(make).run(AwaitedTimed(how="own timeout"))
    assert "TimeoutError: mine" in outcome.status


def test_a_job_may_heed_the_limit_and_succeed(threads):
    assert threads.run(PlainTimed(how="heed")) == [None]
    assert seen == ["it ran for longer than its timeout of 0.1 s"]


def run_limits(timeout):
    options = JobOptions("j", "q", timeout=timeout)
    return RunLimits(options, time.monotonic(), memoryview(bytearray(8)).cast("Q"), 0)


def test_a_limit_never_strikes_the_next_job_of_the_thread():
    """The job ends at the very moment at which its alarm goes off, again and again."""
    alarms = Alarms(lambda: None)
    results, is_over = [], threading.Event()

    def work():
        for number in range(1000):
            try:
                alarms.arm(run_limits(0.0002))
                for _ in range(number % 40):
                    time.sleep(0)
                alarms.disarm()
            except JobTimeout:
                results.append("struck")
                alarms.disarm()
            for _ in range(20):  # the next job, without a limit
                time.sleep(0)
            results.append("over")
        is_over.set()

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 2 * DEADLINE_SECONDS
    while not is_over.is_set() and thread.is_alive() and time.monotonic() < deadline:
        alarms.check()
        time.sleep(0.0001)
    thread.join(DEADLINE_SECONDS)
    assert results.count("over") == 1000
    assert "struck" in results


class StruckStream(io.StringIO):
    def __init__(self, kind):
        super().__init__()
        self._kind = kind

    def write(self, text):
        raise self._kind(text)


@pytest.mark.parametrize("kind", [JobTimeout, StepTimeout])
def test_a_limit_that_strikes_while_a_line_is_written_reaches_the_job_and_leaves_the_log_to_others(kind):
    handler = logs.LineHandler(StruckStream(kind))
    record = logging.LogRecord("any", logging.INFO, "f.py", 1, "hello", (), None)
    with pytest.raises(kind, match="hello"):
        handler.handle(record)
    taken = []
    other = threading.Thread(target=lambda: taken.append(handler.lock.acquire(timeout=DEADLINE_SECONDS)))
    other.start()
    other.join(2 * DEADLINE_SECONDS)
    assert taken == [True]


def test_an_alarm_says_when_to_look_again():
    rings = []
    alarms = Alarms(lambda: rings.append(1))
    assert alarms.check() is None
    began = time.monotonic()
    alarms.arm(run_limits(30))
    assert rings == [1]
    left = alarms.check()
    assert 29 - (time.monotonic() - began) < left <= 30
    alarms.disarm()
    assert alarms.check() is None


@pytest.mark.parametrize("make", [thread_team, task_team])
def test_the_master_hears_of_the_earliest_hard_limit(teams, make):
    bench, began = teams(make), time.monotonic()
    bench.start(OnlyHard(), OnlyHard())
    bench.await_seen(2)
    assert began + 29 < bench.wishes[0] < time.monotonic() + 31
    assert len(bench.wishes) == 1
    gate.set()
    bench.outcomes(2)
    assert bench.wishes[-1] is None


def test_deadlines_tell_of_the_earliest_only():
    told = []
    deadlines = Deadlines(told.append)
    late, early = deadlines.add(20.0), deadlines.add(10.0)
    latest = deadlines.add(30.0)
    assert told == [20.0, 10.0]
    deadlines.remove(late)
    deadlines.remove(early)
    deadlines.remove(early)
    assert told == [20.0, 10.0, 30.0]
    for _ in range(1000):
        deadlines.remove(deadlines.add(40.0))
    assert len(deadlines._heap) < 100, "what is over is not kept"
    for moment in range(50, 1050):
        deadlines.move(latest, float(moment))
    assert told[3:] == [float(moment) for moment in range(50, 1050)], "put off, it is told each time"
    assert len(deadlines._heap) < 100
    deadlines.remove(latest)
    deadlines.move(latest, 7.0)
    assert told[-2:] == [1049.0, None]


def test_a_fork_of_a_job_does_not_lift_its_limit(monkeypatch):
    told = []
    deadlines = Deadlines(told.append)
    for pids in ([1, 1], [1, 2]):
        monkeypatch.setattr("pinlater.worker.running.deadlines.getpid", iter(pids).__next__)
        with deadlines.enforce(run_limits(5.0)):
            pass
    first, lifted, second = told
    assert (lifted, first <= second) == (None, True)
