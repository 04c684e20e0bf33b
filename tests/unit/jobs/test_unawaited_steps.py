"""A step of a coroutine function that a job does not await has not run: the attempt fails, and says so."""

import asyncio

import pytest

from pinlater import Job, JobContext
from pinlater.testing import LocalServer, run_inline

fetched = []


async def fetch(url: str) -> int:
    fetched.append(url)
    return len(url)


class ForgetsInPlainRun(Job, queue="feeds", attempts=1):
    def run(self, context: JobContext) -> None:
        context.step("fetch", fetch, "a")


class ForgetsInAsyncRun(Job, queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> None:
        await context.step("fetch", fetch, "a")
        context.step("fetch", fetch, "b")


class Awaits(Job[int], queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> int:
        return sum(await asyncio.gather(*[context.step("fetch", fetch, url) for url in "abc"]))


class ReturnsIt(Job[int], queue="feeds", attempts=1):
    def run(self, context: JobContext):
        return context.step("fetch", fetch, "a")


class CancelsOne(Job, queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> None:
        step = asyncio.ensure_future(context.step("fetch", fetch, "a"))
        step.cancel()
        await asyncio.wait([step])


class RaisesBefore(Job, queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> None:
        step = context.step("fetch", fetch, "a")
        step.close()
        raise ValueError("of its own")


@pytest.fixture(autouse=True)
def nothing_fetched():
    fetched.clear()


def outcome_of(job):
    with run_inline(type(job)) as client:
        client.enqueue(job)
        [outcome] = client.outcomes
        return outcome


@pytest.mark.parametrize(("kind", "step"), [(ForgetsInPlainRun, "fetch"), (ForgetsInAsyncRun, "fetch#2")])
def test_the_attempt_fails_and_names_the_step(kind, step):
    outcome = outcome_of(kind())
    assert outcome.ending == "failed"
    assert f"step '{step}' was not awaited, so it has not run" in str(outcome.error)


@pytest.mark.parametrize("kind", [Awaits, ReturnsIt, CancelsOne])
def test_a_step_that_was_awaited_returned_or_cancelled_is_no_failure(kind):
    assert outcome_of(kind()).ending == "succeeded"


def test_an_error_of_the_job_goes_first():
    assert str(outcome_of(RaisesBefore()).error) == "of its own"


def test_a_worker_does_the_same(tmp_path):
    with LocalServer(tmp_path) as server:
        server.client(ForgetsInPlainRun).enqueue(ForgetsInPlainRun())
        [outcome] = server.run_worker(ForgetsInPlainRun)
    assert outcome.ending == "failed"
    assert fetched == []
