"""Several jobs at once beside the main thread: how they start and end, and their limits."""

import asyncio
import contextvars
import io
import logging
import select
import threading
import time

import pytest

from pinlater.backoff import Constant
from pinlater.codec import JobCodec, encode_body
from pinlater.errors import JobInterrupted, JobTimeout
from pinlater.job import Job
from pinlater.worker import logs
from pinlater.worker.processes.bell import Bell
from pinlater.worker.processes.task_team import TaskTeam
from pinlater.worker.processes.thread_team import ThreadTeam
from pinlater.worker.running.alarms import Alarms
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.outcome import Failure, Interruption
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from tests.unit.worker_fakes import batch_of

DEADLINE_SECONDS = 20


class FakeSaver:
    is_draining = False
    is_saving = False


class Plain(Job, queue="jobs", backoff=Constant(7)):
    how: str

    def run(self, context):
        ways[self.how](context)


class PlainTimed(Job, queue="jobs", timeout=0.1, kill_after=30):
    how: str

    def run(self, context):
        return ways[self.how](context)


class Awaited(Job, queue="jobs", backoff=Constant(7)):
    how: str

    async def run(self, context):
        await ways[self.how](context)


class AwaitedTimed(Job, queue="jobs", timeout=0.1, kill_after=30):
    how: str

    async def run(self, context):
        await ways[self.how](context)


class OnlyHard(Job, queue="jobs", kill_after=30):
    async def run(self, context):
        await gate_later(context)


gate = threading.Event()
seen = []
passed = contextvars.ContextVar("passed", default=None)


def wait(context):
    seen.append((context.descriptor, logs.running.get().job, threading.current_thread().name))
    assert gate.wait(DEADLINE_SECONDS)
    seen.append(logs.running.get().job)


async def gate_later(context):
    seen.append((context.descriptor, logs.running.get().job, passed.get()))
    passed.set(context.descriptor)
    while not gate.is_set():
        await asyncio.sleep(0.005)
    seen.append(logs.running.get().job)


def fail(context):
    raise ValueError("some reason")


async def fail_later(context):
    await asyncio.sleep(0)
    raise ValueError("some reason")


async def interrupt_later(context):
    raise JobInterrupted


async def leave(context):
    raise SystemExit(3)


async def leave_in_a_task(context):
    await asyncio.create_task(leave(context))


async def stop_the_loop(context):
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


def spin(context):
    while True:
        time.sleep(0.001)


def heed(context):
    try:
        spin(context)
    except JobTimeout as error:
        seen.append(str(error))


async def sleep_later(context):
    try:
        await asyncio.sleep(DEADLINE_SECONDS)
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise


async def own_timeout(context):
    raise TimeoutError("mine")


async def leave_tasks(context):
    async def inner():
        seen.append(asyncio.create_task(asyncio.sleep(60)))
        await asyncio.sleep(60)

    seen.append(asyncio.create_task(inner()))
    await asyncio.sleep(0.01)


async def cancel_itself(context):
    asyncio.current_task().cancel()


def block(context):
    wait(context)


async def block_later(context):
    await asyncio.sleep(0)
    block(context)


ways = {
    "return": lambda context: None,
    "wait": wait,
    "fail": fail,
    "spin": spin,
    "heed": heed,
    "gate": gate_later,
    "fail later": fail_later,
    "interrupt": interrupt_later,
    "leave": leave,
    "leave in a task": leave_in_a_task,
    "stop": stop_the_loop,
    "sleep": sleep_later,
    "coroutine": sleep_later,
    "own timeout": own_timeout,
    "leave tasks": leave_tasks,
    "cancel itself": cancel_itself,
    "block": block_later,
}


class Bench:
    """Stands in for the main thread."""

    def __init__(self, places, make):
        self.bell = Bell()
        self.wishes = []
        self.codec = JobCodec([Plain, PlainTimed, Awaited, AwaitedTimed, OnlyHard])
        self.team = make(self, places)
        self.number = 0

    def start(self, *jobs):
        batches = []
        for job in jobs:
            self.number += 1
            batches.append(batch_of(f"jobs:s1:p1:{self.number}", bodies=[encode_body(job)]))
            self.team.start(batches[-1])
        return batches

    def turn(self):
        """Wait as the process does; return what has ended."""
        seconds = self.team.look()
        poll = select.poll()
        poll.register(self.bell, select.POLLIN)
        poll.poll(20 if seconds is None else 1000 * min(seconds, 0.02))
        self.bell.silence()
        return list(self.team.ended())

    def outcomes(self, count):
        """Return how so many jobs end: descriptor -> outcome."""
        found, deadline = {}, time.monotonic() + DEADLINE_SECONDS
        while len(found) < count:
            assert time.monotonic() < deadline, found
            found |= {ended.batch.descriptors[0]: ended.outcome for ended in self.turn()}
        return found

    def run(self, *jobs):
        batches = self.start(*jobs)
        outcomes = self.outcomes(len(jobs))
        return [outcomes[batch.descriptors[0]] for batch in batches]

    def await_seen(self, count):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(seen) < count:
            assert time.monotonic() < deadline, seen
            self.turn()


def thread_team(bench, places):
    def new_runner(running, limits, coroutines):
        return Runner(
            bench.codec, bench.codec.names, FakeSaver(), 30.0, running=running, limits=limits, coroutines=coroutines
        )

    return ThreadTeam(places, bench.bell, new_runner, bench.wishes.append)


def task_team(bench, places):
    def new_runner(deadlines):
        return TaskRunner(bench.codec, bench.codec.names, FakeSaver(), 30.0, deadlines)

    return TaskTeam(places, bench.bell, new_runner, bench.wishes.append)


@pytest.fixture
def teams():
    """Make teams; end their threads."""
    gate.clear()
    seen.clear()
    benches = []

    def make(make_team, places=8):
        benches.append(Bench(places, make_team))
        return benches[-1]

    yield make
    gate.set()
    for bench in benches:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while bench.team.busy and time.monotonic() < deadline:
            bench.turn()
        bench.team.close()
        bench.bell.close()


@pytest.fixture
def threads(teams):
    return teams(thread_team)


@pytest.fixture
def tasks(teams):
    return teams(task_team)


def test_jobs_run_at_once_in_threads_and_know_which_they_are(threads):
    threads.start(*[Plain(how="wait")] * 3)
    assert (threads.team.busy, threads.team.free) == (3, 5)
    threads.await_seen(3)
    begun = list(seen)
    assert len({thread for *_, thread in begun}) == 3
    for descriptor, running, _ in begun:
        assert str(running) == f"{descriptor} attempt 1/4"
    gate.set()
    assert set(threads.outcomes(3).values()) == {None}
    assert {str(running) for running in seen[3:]} == {str(running) for _, running, _ in begun}
    assert (threads.team.busy, threads.team.free) == (0, 8)


def test_threads_are_used_again(threads):
    for _ in range(20):
        assert threads.run(Plain(how="return"), Awaited(how="leave tasks")) == [None, None]
    assert len(threads.team._threads) == 2
    assert {task.cancelled() for task in seen} == {True}


def test_how_jobs_end_in_threads(threads):
    failed = threads.run(Plain(how="fail"))[0]
    assert isinstance(failed, Failure)
    assert failed.delay_ms == 7000
    assert "ValueError: some reason" in failed.status
    assert isinstance(threads.run(Awaited(how="interrupt"))[0], Interruption)
    assert "SystemExit" in threads.run(Awaited(how="leave"))[0].status


def test_the_board_shows_what_runs(tasks):
    [batch, _] = tasks.start(AwaitedTimed(how="gate"), Awaited(how="gate"))
    tasks.await_seen(2)
    assert tasks.codec.names[batch.area.kinds[0]] == "AwaitedTimed"
    assert 0 < batch.area.since_ns[0] <= time.monotonic_ns() < batch.area.kill_ns[0]


def test_jobs_run_at_once_as_tasks_and_know_which_they_are(tasks):
    tasks.start(*[Awaited(how="gate")] * 8)
    tasks.await_seen(8)
    for descriptor, running, inherited in list(seen):
        assert str(running) == f"{descriptor} attempt 1/4"
        assert inherited is None, "no job sees the variables of another"
    gate.set()
    assert set(tasks.outcomes(8).values()) == {None}
    assert len({str(running) for running in seen[8:]}) == 8


def test_how_jobs_end_as_tasks(tasks):
    failed, interrupted = tasks.run(Awaited(how="fail later"), Awaited(how="interrupt"))
    assert (isinstance(failed, Failure), isinstance(interrupted, Interruption)) == (True, True)
    assert "ValueError: some reason" in failed.status
    assert "test_worker_teams.py" in failed.status
    assert "task_runner" not in failed.status
    assert "SystemExit: 3" in tasks.run(Awaited(how="leave"))[0].status


@pytest.mark.parametrize("how", ["leave", "leave in a task", "stop", "cancel itself"])
def test_a_job_does_not_end_the_loop_of_the_others(tasks, how):
    tasks.start(Awaited(how="gate"))
    tasks.run(Awaited(how=how))
    gate.set()
    assert tasks.outcomes(1) == {"jobs:s1:p1:1": None}


def test_what_a_job_leaves_running_ends_with_it_and_nothing_else_does(tasks):
    tasks.start(Awaited(how="gate"))
    tasks.await_seen(1)
    assert tasks.run(Awaited(how="leave tasks")) == [None]
    left = seen[1:]
    assert [task.cancelled() for task in left] == [True, True]
    gate.set()
    assert tasks.outcomes(1) == {"jobs:s1:p1:1": None}


def test_a_plain_job_that_comes_to_an_event_loop_is_not_run(tasks):
    [outcome] = tasks.run(Plain(how="wait"))
    assert "BodyInvalid: Plain has a plain run, which would block" in outcome.status
    assert seen == []


def test_unreadable_bodies_are_failures(tasks, threads):
    for bench in (tasks, threads):
        bench.team.start(batch_of("jobs:s1:p1:7", bodies=[b"no job"]))
        assert isinstance(bench.outcomes(1)["jobs:s1:p1:7"], Failure)


@pytest.mark.parametrize("make", [thread_team, task_team])
def test_what_goes_wrong_outside_of_jobs_ends_the_process(teams, make, monkeypatch):
    bench = teams(make)
    monkeypatch.setattr(Runner, "_note", lambda *_: 1 / 0)
    bench.start(Awaited(how="gate"))
    with pytest.raises(ZeroDivisionError):
        bench.outcomes(1)
    bench.team._busy, bench.team._breakdown = 0, None


# Limits


@pytest.mark.parametrize("job", [PlainTimed(how="spin"), PlainTimed(how="coroutine"), AwaitedTimed(how="sleep")])
def test_a_job_past_its_limit_in_a_thread_is_interrupted(threads, job):
    for _ in range(3):
        [outcome] = threads.run(job)
        assert "JobTimeout: it ran for longer than its timeout of 0.1 s" in outcome.status
        assert "test_worker_teams.py" in outcome.status, "where it was"


def test_a_job_past_its_limit_as_a_task_is_cancelled_and_others_are_not(tasks):
    tasks.start(Awaited(how="gate"))
    [outcome] = tasks.run(AwaitedTimed(how="sleep"))
    assert "JobTimeout: it ran for longer than its timeout of 0.1 s" in outcome.status
    assert "in sleep_later" in outcome.status
    assert seen[-1] == "cancelled"
    gate.set()
    assert tasks.outcomes(1) == {"jobs:s1:p1:1": None}


@pytest.mark.parametrize("make", [thread_team, task_team])
def test_other_timeouts_are_no_limit(teams, make):
    [outcome] = teams(make).run(AwaitedTimed(how="own timeout"))
    assert "TimeoutError: mine" in outcome.status


def test_a_job_may_heed_the_limit_and_succeed(threads):
    assert threads.run(PlainTimed(how="heed")) == [None]
    assert seen == ["it ran for longer than its timeout of 0.1 s"]


def test_a_limit_never_strikes_the_next_job_of_the_thread():
    """The job ends at the very moment at which its alarm goes off, again and again."""
    alarms = Alarms(lambda: None)
    results, is_over = [], threading.Event()

    def work():
        for number in range(1000):
            try:
                alarms.arm(0.0002)
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
        alarms.look()
        time.sleep(0.0001)
    thread.join(DEADLINE_SECONDS)
    assert results.count("over") == 1000
    assert "struck" in results


class StruckStream(io.StringIO):
    def write(self, text):
        raise JobTimeout(text)


def test_a_limit_that_strikes_while_a_line_is_written_reaches_the_job_and_leaves_the_log_to_others():
    handler = logs.LineHandler(StruckStream())
    record = logging.LogRecord("any", logging.INFO, "f.py", 1, "hello", (), None)
    with pytest.raises(JobTimeout, match="hello"):
        handler.handle(record)
    taken = []
    other = threading.Thread(target=lambda: taken.append(handler.lock.acquire(timeout=DEADLINE_SECONDS)))
    other.start()
    other.join(2 * DEADLINE_SECONDS)
    assert taken == [True]


def test_an_alarm_says_when_to_look_again():
    rings = []
    alarms = Alarms(lambda: rings.append(1))
    assert alarms.look() is None
    alarms.arm(30)
    assert rings == [1]
    assert 29 < alarms.look() <= 30
    alarms.disarm()
    assert alarms.look() is None


@pytest.mark.parametrize("make", [thread_team, task_team])
def test_the_master_hears_of_the_earliest_hard_limit(teams, make):
    bench, began = teams(make), time.monotonic()
    bench.start(OnlyHard(), OnlyHard())
    bench.await_seen(2)
    assert 29 < bench.wishes[0] - began < 31
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
    deadlines.remove(latest)
    assert told == [20.0, 10.0, 30.0, None]


# A blocked loop


def test_a_job_that_blocks_the_loop_is_named_once_each_time(tasks, monkeypatch, caplog):
    monkeypatch.setattr("pinlater.worker.processes.loop_watch.BLOCKED_SECONDS", 0.05)
    caplog.set_level(logging.WARNING, "pinlater.worker.processes.loop_watch")
    for occurrence in (1, 2):
        tasks.start(Awaited(how="block"))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(caplog.records) < occurrence and time.monotonic() < deadline:
            tasks.turn()
        for _ in range(3):
            tasks.turn()
        gate.set()
        assert list(tasks.outcomes(1).values()) == [None]
        gate.clear()
        assert len(caplog.records) == occurrence
        text = caplog.records[-1].getMessage()
        assert f"by jobs:s1:p1:{occurrence}:" in text
        assert "in block" in text


def test_a_loop_that_waits_is_not_blocked(tasks, monkeypatch, caplog):
    monkeypatch.setattr("pinlater.worker.processes.loop_watch.BLOCKED_SECONDS", 0.05)
    tasks.start(Awaited(how="gate"))
    began = time.monotonic()
    while time.monotonic() < began + 0.3:
        tasks.turn()
    assert caplog.records == []


def test_without_jobs_nobody_looks(tasks):
    tasks.run(Awaited(how="fail later"))
    assert tasks.team.look() is None
