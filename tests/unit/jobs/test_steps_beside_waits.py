"""A step that runs while another coroutine of its job begins to wait is not cut off: it would run once more."""

import asyncio
from contextlib import contextmanager
from time import monotonic_ns

import pytest

from pinlater import Job, JobInterrupted
from pinlater.jobs import steps
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import read_metadata
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.outcome import Interruption
from tests.unit.jobs.workflow_attempts import InAWorker, KeepingSaver
from tests.unit.worker.fakes import batch_of

seen = []


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


async def charge():
    seen.append("begun")
    await asyncio.sleep(0.01)
    seen.append("charged")
    return "receipt"


async def hang():
    await asyncio.Event().wait()


class Order(Job, queue="orders"):
    async def run(self, context):
        async def pay():
            context.wait_for(await context.step("charge", charge))

        async def approval():
            context.wait_for("approval")

        await asyncio.gather(pay(), approval())


class Hangs(Job, queue="orders"):
    async def run(self, context):
        async def nap():
            context.sleep_for(60, name="nap")

        await asyncio.gather(context.step("hang", hang), nap())


@contextmanager
def around(job, context):
    try:
        yield
    finally:
        seen.append("closed")


def alone(codec, *rest, **options):
    runner = Runner(codec, *rest, **options)
    yield runner.run
    runner.close()


def among_others(codec, *rest, **options):
    runner = TaskRunner(codec, *rest, Deadlines(never_kill), **options)
    yield lambda *job: asyncio.run(runner.run_awaited(*job))


def outcome_of(job, place, **options):
    [outcome] = [
        run(batch_of("orders:s1:p1:7", bodies=[encode_body(job)]), 0, monotonic_ns())
        for run in place(JobCodec([Order, Hangs]), KeepingSaver({}), **options)
    ]
    assert isinstance(outcome, Interruption)
    return outcome


@pytest.mark.parametrize("middleware", [(), (around,)], ids=["", "middleware"])
@pytest.mark.parametrize("place", [alone, among_others])
def test_it_ends_and_what_comes_after_it_waits_too(place, middleware):
    outcome = outcome_of(Order(), place, middleware=middleware)
    assert seen == ["begun", "charged", *["closed"] * len(middleware)]
    assert read_metadata(outcome.body).steps == {"charge": "receipt"}
    assert {wait.name for wait in outcome.waits_for} == {"event/approval", "event/receipt"}


@pytest.mark.parametrize("place", [alone, among_others])
def test_one_that_does_not_end_is_cut_off_in_the_end(place, monkeypatch):
    monkeypatch.setattr(steps, "_PATIENCE_SECONDS", 0.01)
    outcome = outcome_of(Hangs(), place)
    assert list(read_metadata(outcome.body).sleeps) == ["nap"]


def test_a_drain_does_not_wait_for_ever_for_a_step_that_waits_for_the_next_one(monkeypatch):
    monkeypatch.setattr(steps, "_PATIENCE_SECONDS", 0.01)
    attempts = InAWorker()
    context = attempts.attempt(drain_after=1)

    async def run():
        has_come = asyncio.Event()

        async def two():
            await context.step("charge", charge)
            await context.step("come", come)

        async def come():
            has_come.set()

        await asyncio.gather(context.step("wait", has_come.wait), two())

    with pytest.raises(JobInterrupted):
        asyncio.run(run())
    assert read_metadata(attempts.saver.bodies[-1]).steps == {"charge": "receipt"}
