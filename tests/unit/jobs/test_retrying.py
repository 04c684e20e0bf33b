"""Steps with attempts of their own: in every kind of context, and through a server."""

import asyncio
import logging
from time import time

import pytest

from pinlater import Constant, Discard, Job, JobSleeps, JobState, JobTimeout, Linear, Retry, retrying
from pinlater.errors import JobInterrupted, interruption_in
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.testing import LocalServer, run_inline
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Interruption
from tests.unit.jobs.workflow_attempts import KINDS, InAWorker, Saver
from tests.unit.worker.fakes import batch_of, new_row


class Careful(Job, give_up_on=(PermissionError,)):
    def run(self, context):
        pass


@pytest.fixture(params=KINDS)
def attempts(request):
    return request.param(Careful())


class Flaky:
    """Fails as often as it is told, then returns what it is given."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return [*args, kwargs]

    async def later(self, seconds=0.0):
        await asyncio.sleep(seconds)
        return self()


def sleeps(attempts, step, number=1):
    """Take a step that fails and goes on later; return after how many seconds."""
    before = time()
    with pytest.raises(JobSleeps) as caught:
        attempts.attempt(number).step("a", step)
    attempts.slept()
    return caught.value.until_ms / 1000 - before


def test_a_step_that_fails_goes_on_later(attempts):
    flaky = Flaky(OSError("1"), OSError("2"))
    step = retrying(flaky, attempts=5, backoff=Linear(10, 20))
    assert 9.9 < sleeps(attempts, step) < 20
    assert 29.9 < sleeps(attempts, step) < 40
    assert attempts.attempt().step("a", step, 1, attempts=2, backoff="mine") == [1, {"attempts": 2, "backoff": "mine"}]
    attempts.died()
    assert attempts.tries == {}
    assert attempts.attempt(2).step("a", step, 1, attempts=2, backoff="mine") == [1, {"attempts": 2, "backoff": "mine"}]
    assert flaky.calls == 3


def test_the_last_exception_is_the_jobs_and_the_next_attempt_begins_anew(attempts):
    flaky = Flaky(*map(OSError, "12345"))
    step = retrying(flaky, attempts=2)
    for number in (1, 2):
        sleeps(attempts, step, number)
        with pytest.raises(OSError, match=str(number * 2)):
            attempts.attempt(number).step("a", step)
        attempts.died()
    sleeps(attempts, step, 3)


def test_a_job_that_fails_and_is_retried_by_a_person_begins_anew():
    attempts = InAWorker()
    step = retrying(Flaky(*map(OSError, "1234")), attempts=2)
    sleeps(attempts, step, 4)
    with pytest.raises(OSError, match="2"):
        attempts.attempt(4).step("a", step)
    attempts.died()
    assert attempts.tries == {}
    sleeps(attempts, step, 4)


def test_a_failure_that_the_job_caught_costs_one_more_attempt_if_it_comes_by_again(attempts):
    flaky = Flaky(*map(OSError, "123456"))
    step = retrying(flaky, attempts=3)
    sleeps(attempts, step)
    sleeps(attempts, step)
    for call in (3, 4):
        context = attempts.attempt()
        with pytest.raises(OSError, match=str(call)):
            context.step("a", step)
        with pytest.raises(JobSleeps):
            context.sleep_for(60, name=f"{call}")
        attempts.slept()
    sleeps(attempts, step, 2)


@pytest.mark.parametrize("error", [Discard("no"), JobTimeout("too long"), PermissionError("never")])
def test_what_no_attempt_would_help_is_raised_at_once(attempts, error):
    with pytest.raises(type(error)):
        attempts.attempt().step("a", retrying(Flaky(error), attempts=5))


def test_a_step_may_say_when(attempts):
    step = retrying(Flaky(Retry(after=100), Retry(), Retry(after=7)), attempts=3, backoff=Constant(1))
    assert 99.9 < sleeps(attempts, step) < 110
    assert 0.9 < sleeps(attempts, step) < 10
    with pytest.raises(Retry) as caught:
        attempts.attempt().step("a", step)
    assert caught.value.after == 7


def test_a_count_of_one_step_is_not_that_of_another(attempts):
    good, bad = retrying(Flaky(), attempts=2), retrying(Flaky(OSError(), OSError()), attempts=2)
    for ending in (JobSleeps, OSError):
        context = attempts.attempt()
        context.step("a", good)
        with pytest.raises(ending):
            context.step("a", bad)
        attempts.slept()
    assert list(attempts.tries) == ["a#2"]


def test_the_count_is_saved_before_the_process_is_given_back():
    attempts = InAWorker()
    with pytest.raises(JobSleeps):
        attempts.attempt().step("a", retrying(Flaky(OSError()), attempts=3))
    attempts.died()
    assert attempts.tries == {"a": (1, 1)}


def test_a_failed_attempt_is_logged(attempts, caplog):
    caplog.set_level(logging.WARNING)
    sleeps(attempts, retrying(Flaky(OSError("away")), attempts=3, backoff=Constant(2)))
    [record] = caplog.records
    assert record.getMessage() == "step 'a' failed, attempt 1 of 3; the next one is in 2.0 s"
    assert record.exc_info[0] is OSError


def test_a_function_by_itself_is_called_once():
    step = retrying(Flaky(OSError("away")), attempts=3)
    with pytest.raises(OSError):
        step()
    assert step(1) == [1, {}]


def test_attempts_are_counted_from_one():
    with pytest.raises(ValueError, match="at least 1"):
        retrying(print, attempts=0)


def test_what_was_called_already_is_refused():
    with pytest.raises(TypeError, match="retrying takes the function of a step, not 7; do not call the function"):
        retrying(7, attempts=2)
    with pytest.raises(TypeError, match="timed takes the function of a step, not 7"):
        retrying(7, attempts=2, timeout=60)


# Coroutine functions


def test_coroutines_are_retried_too(attempts):
    flaky = Flaky(OSError())
    step = retrying(flaky.later, attempts=2)

    async def run(context):
        return await context.step("a", step)

    with pytest.raises(JobSleeps):
        asyncio.run(run(attempts.attempt()))
    attempts.slept()
    assert asyncio.run(run(attempts.attempt())) == [{}]
    assert flaky.calls == 2


async def in_a_group(*steps):
    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(step)


@pytest.mark.parametrize("together", [asyncio.gather, in_a_group])
def test_steps_beside_a_failed_one_end_and_the_longest_backoff_counts(attempts, together):
    quick = retrying(Flaky(OSError()).later, attempts=2, backoff=Constant(100))
    slow = retrying(Flaky(OSError()).later, attempts=2, backoff=Constant(50))
    whole = Flaky()

    async def run(context):
        await together(
            context.step("quick", quick), context.step("slow", slow, 0.03), context.step("whole", whole.later, 0.06)
        )

    before = time()
    with pytest.raises(BaseException) as caught:
        asyncio.run(run(attempts.attempt()))
    interruption = interruption_in(caught.value)
    assert isinstance(interruption, JobSleeps)
    assert 99.9 < interruption.until_ms / 1000 - before < 120
    attempts.slept()
    assert attempts.tries == {"quick": (1, 1), "slow": (1, 1)}
    asyncio.run(run(attempts.attempt()))
    assert whole.calls == 1


async def beside_one_that_waits_for_it(context, step):
    awaited = asyncio.ensure_future(context.step("first", step))

    async def second():
        return await awaited

    async with asyncio.timeout(20):  # rather than a test without end
        return await context.step("second", second)


def test_a_step_that_a_running_one_waits_for_is_retried_beside_it(attempts):
    flaky = Flaky(OSError("1"), OSError("2"))
    step = retrying(flaky.later, attempts=3, backoff=Constant(0.01))
    assert asyncio.run(beside_one_that_waits_for_it(attempts.attempt(), step)) == [{}]
    assert flaky.calls == 3
    attempts.died()
    assert attempts.tries == {}


def test_a_step_that_a_running_one_waits_for_is_retried_in_a_drain_too(attempts):
    flaky = Flaky(OSError("1"), OSError("2"))
    step = retrying(flaky.later, attempts=3, backoff=Constant(0.01))
    context = attempts.attempt(drain_after=1)
    assert asyncio.run(beside_one_that_waits_for_it(context, step)) == [{}]
    assert flaky.calls == 3
    with pytest.raises(JobInterrupted):
        context.step("next", flaky)


def test_the_last_exception_of_a_step_retried_beside_others_is_the_jobs(attempts):
    step = retrying(Flaky(OSError("1"), OSError("2")).later, attempts=2, backoff=Constant(0.01))
    with pytest.raises(OSError, match="2"):
        asyncio.run(beside_one_that_waits_for_it(attempts.attempt(), step))


def test_no_step_is_retried_once_the_attempt_has_ended(attempts):
    flaky = Flaky(OSError("1"), OSError("2"))
    step = retrying(flaky.later, attempts=3, backoff=Constant(0.01))

    async def rest(context):
        while not flaky.calls:
            await asyncio.sleep(0)
        with pytest.raises(JobSleeps):
            context.sleep_for(60, name="rest")

    async def run(context):
        resting = asyncio.ensure_future(rest(context))
        with pytest.raises(JobSleeps):
            await beside_one_that_waits_for_it(context, step)
        await resting

    context = attempts.attempt()
    asyncio.run(run(context))
    assert flaky.calls == 1
    assert context.interruption.until_ms / 1000 - time() > 50


def test_groups_are_interruptions_if_nothing_else_is_in_them():
    sleep = JobSleeps(7)
    assert interruption_in(BaseExceptionGroup("", [JobInterrupted(), BaseExceptionGroup("", [sleep])])) is sleep
    assert interruption_in(BaseExceptionGroup("", [sleep, OSError()])) is None
    assert interruption_in(OSError()) is None


# In a worker


class Fetch(Job, queue="fetches", attempts=2):
    async def run(self, context):
        async with asyncio.TaskGroup() as group:
            group.create_task(context.step("fetch", retrying(flaky.later, attempts=3, backoff=Constant(60))))


flaky = Flaky()


@pytest.fixture(autouse=True)
def mend():
    flaky.errors, flaky.calls = list(map(OSError, "1234")), 0


def test_the_runner_gives_the_job_back():
    codec, row = JobCodec([Fetch]), new_row()
    batch = batch_of("fetches:s1:p1:7", bodies=[encode_body(Fetch())], row=row)
    runner = Runner(codec, Saver())
    outcome = runner.run(batch, 0, 0)
    runner.close()
    assert isinstance(outcome, Interruption)
    assert outcome.run_after_ms > (time() + 50) * 1000


def test_inline_nobody_waits():
    with run_inline(Fetch) as client:
        client.enqueue(Fetch())
        client.assert_succeeded()
    endings = [(outcome.ending, outcome.attempt) for outcome in client.outcomes]
    assert endings == [
        ("interrupted", 1),
        ("interrupted", 1),
        ("failed", 1),
        ("interrupted", 2),
        ("succeeded", 2),
    ]


def test_on_a_server_it_comes_again_after_its_backoff(tmp_path):
    with LocalServer(tmp_path) as server:
        handle = server.client(Fetch).enqueue(Fetch())
        for _ in range(2):
            assert [outcome.ending for outcome in server.run_worker(Fetch)] == ["interrupted"]
            assert handle.status().attempts_remaining == 2
            server.advance(55)
            assert server.run_worker(Fetch) == []
            server.advance(10)
        assert [outcome.ending for outcome in server.run_worker(Fetch)] == ["failed"]
        info = handle.status(include_body=True)
        assert (info.state, info.attempts_remaining, b"tries" in info.body) == (JobState.PENDING, 1, False)
