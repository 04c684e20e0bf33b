"""A step of a coroutine function that a job does not await has not run: the attempt fails, and says so."""

import asyncio

import pytest

from pinlater import Job, JobContext
from pinlater.testing import LocalServer, run_inline

fetched, tasks = [], []


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


class ForgetsATask(Job, queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> None:
        tasks.append(asyncio.create_task(context.step("fetch", fetch, "a")))


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


class CancelsOneAtLast(Job, queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> None:
        asyncio.ensure_future(context.step("fetch", fetch, "a")).cancel()


async def hang() -> None:
    await asyncio.sleep(3600)


class GivesUpTheRest(Job[str], queue="feeds", attempts=1):
    """The turn of its second step does not come, since the first takes too long."""

    async def run(self, context: JobContext) -> str:
        first, second = context.step("hang", hang), context.step("fetch", fetch, "a")
        try:
            async with asyncio.timeout(0.01):
                await first
                await second
        except TimeoutError:
            return "late"
        return "done"


class GivesUpAfterAFailure(Job[str], queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> str:
        first, second = context.step("fail", fail), context.step("fetch", fetch, "a")
        try:
            await first
            await second
        except OSError:
            return "failed"
        return "done"


async def fail() -> None:
    raise OSError


class LeavesTheLoser(Job[int], queue="feeds", attempts=1):
    async def run(self, context: JobContext) -> int:
        steps = [context.step("fetch", fetch, "a"), context.step("hang", hang)]
        done, _ = await asyncio.wait([*map(asyncio.ensure_future, steps)], return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()


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


@pytest.mark.parametrize(
    ("kind", "step"), [(ForgetsInPlainRun, "fetch"), (ForgetsInAsyncRun, "fetch#2"), (ForgetsATask, "fetch")]
)
def test_the_attempt_fails_and_names_the_step(kind, step):
    outcome = outcome_of(kind())
    assert outcome.ending == "failed"
    assert f"step '{step}' was not awaited, so it has not run" in str(outcome.error)


@pytest.mark.parametrize("kind", [Awaits, ReturnsIt, CancelsOne, CancelsOneAtLast])
def test_a_step_that_was_awaited_returned_or_cancelled_is_no_failure(kind):
    assert outcome_of(kind()).ending == "succeeded"


@pytest.mark.parametrize("kind", [GivesUpTheRest, GivesUpAfterAFailure])
def test_a_step_whose_turn_did_not_come_is_no_failure(kind):
    assert outcome_of(kind()).ending == "succeeded"
    assert fetched == []


def test_a_step_that_still_runs_is_told_in_the_log(caplog):
    """It may be the loser of a race, so the attempt does not fail."""
    outcome = outcome_of(LeavesTheLoser())
    assert (outcome.ending, outcome.result) == ("succeeded", 1)
    assert "step 'hang' still ran when run returned, and is cancelled" in caplog.text


def test_an_error_of_the_job_goes_first():
    assert str(outcome_of(RaisesBefore()).error) == "of its own"


def test_a_worker_does_the_same(tmp_path):
    with LocalServer(tmp_path) as server:
        server.client(ForgetsInPlainRun).enqueue(ForgetsInPlainRun())
        [outcome] = server.run_worker(ForgetsInPlainRun)
    assert outcome.ending == "failed"
    assert fetched == []
