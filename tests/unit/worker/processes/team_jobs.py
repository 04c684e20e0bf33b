"""Jobs for teams, and a bench to run them at."""

import asyncio
import contextvars
import select
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pinlater.errors import JobInterrupted, JobTimeout
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job
from pinlater.model.backoff import Constant
from pinlater.worker import logs
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.processes.task_team import TaskTeam
from pinlater.worker.processes.thread_team import ThreadTeam
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from tests.unit.worker.fakes import batch_of

DEADLINE_SECONDS = 20


class FakeSaver:
    is_draining = False
    is_saving = False

    def is_stored(self, message_id):
        return False


class Plain(Job, queue="jobs", backoff=Constant(7)):
    how: str

    def run(self, context):
        ways[self.how](context)


class PlainTimed(Job, queue="jobs", timeout=0.1, kill_after=30):
    how: str

    def run(self, context):
        return ways[self.how](context)


class PlainStalled(Job, queue="jobs", stall_after=0.1):
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


class AwaitedStalled(Job, queue="jobs", stall_after=0.1):
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
    seen.append((context.descriptor, logs.current_job.get().job, threading.current_thread().name))
    assert gate.wait(DEADLINE_SECONDS)
    seen.append(logs.current_job.get().job)


async def gate_later(context):
    seen.append((context.descriptor, logs.current_job.get().job, passed.get()))
    passed.set(context.descriptor)
    while not gate.is_set():
        await asyncio.sleep(0.005)
    seen.append(logs.current_job.get().job)


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


async def end_beside_a_step(context):
    async def end():
        raise context.interrupt(JobInterrupted())

    await asyncio.gather(context.step("hang", asyncio.sleep, 3600), end())


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


async def leave_calls(context):
    for _ in range(50):
        asyncio.get_running_loop().run_in_executor(None, gate.wait)


async def shut_the_threads_down(context):
    await asyncio.get_running_loop().shutdown_default_executor()


async def shut_own_threads_down(context):
    with ThreadPoolExecutor(1) as own:
        asyncio.get_running_loop().set_default_executor(own)


async def call_in_a_thread(context):
    seen.append(await asyncio.to_thread(int, "7"))


async def cancel_itself(context):
    asyncio.current_task().cancel()


async def cancel_others(context):
    """Cancel the tasks of other jobs as soon as they are made, which is before their first step."""
    seen.append(before := asyncio.all_tasks())
    while not (others := asyncio.all_tasks() - before):
        await asyncio.sleep(0)
    for task in others:
        task.cancel()


async def replace_the_task_factory(context):
    """Give the loop a factory that runs the first step of a task at once, as ``asyncio.eager_task_factory`` does."""

    def eager_task(loop, coroutine, **options):
        with suppress(StopIteration):
            coroutine.send(None)
        return asyncio.Task(asyncio.sleep(0), loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(eager_task)


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
    "end beside a step": end_beside_a_step,
    "sleep": sleep_later,
    "coroutine": sleep_later,
    "own timeout": own_timeout,
    "leave tasks": leave_tasks,
    "leave calls": leave_calls,
    "shut the threads down": shut_the_threads_down,
    "shut own threads down": shut_own_threads_down,
    "call in a thread": call_in_a_thread,
    "cancel itself": cancel_itself,
    "block": block_later,
    "cancel others": cancel_others,
    "replace the task factory": replace_the_task_factory,
}


class Bench:
    """Stands in for the main thread."""

    def __init__(self, places, make):
        self.waker = PipeEvent()
        self.wishes = []
        self.codec = JobCodec([Plain, PlainTimed, PlainStalled, Awaited, AwaitedTimed, AwaitedStalled, OnlyHard])
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
        seconds = self.team.check()
        poll = select.poll()
        poll.register(self.waker, select.POLLIN)
        poll.poll(20 if seconds is None else 1000 * min(seconds, 0.02))
        self.waker.clear()
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
    def new_runner(running, limits):
        return Runner(bench.codec, FakeSaver(), limits, running=running)

    return ThreadTeam(places, bench.waker, new_runner, bench.wishes.append)


def task_team(bench, places):
    def new_runner(deadlines):
        return TaskRunner(bench.codec, FakeSaver(), deadlines)

    return TaskTeam(places, bench.waker, new_runner, bench.wishes.append, time.monotonic_ns)
