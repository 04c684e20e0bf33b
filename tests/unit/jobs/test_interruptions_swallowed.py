"""Jobs that swallow what the context raises to end their attempt: none is a success with its work undone."""

import asyncio
import contextlib
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic_ns

import pytest

from pinlater import Constant, Job, JobInterrupted, JobSleeps, retrying
from pinlater.errors import JobTimeout
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import read_metadata
from pinlater.testing import FakeContext, run_inline
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.outcome import Interruption
from tests.unit.jobs.swallowing_jobs import MAILS, Mails, MailsLater, awaited, plain, send, send_later, sent
from tests.unit.jobs.workflow_attempts import InAWorker, InAWorkerOutside, Plain, Saver, WithFakes
from tests.unit.worker.fakes import batch_of


@contextlib.contextmanager
def swallowing(job, context):
    with contextlib.suppress(BaseException):
        yield


class InOne:
    """Runs attempts with the runner of a process that runs one job after the other."""

    def __init__(self, job, **options):
        self.body = encode_body(job)
        self.saver = Saver()
        codec = JobCodec([Mails, MailsLater])
        self.runner = self.new_runner(codec, options)

    def new_runner(self, codec, options):
        return Runner(codec, self.saver, **options)

    def attempt(self, drain_after=None):
        self.saver.bodies, self.saver.drain_after = [], drain_after
        batch = batch_of("mails:s1:p1:7", bodies=[self.body])
        outcome = self.run(batch)
        if isinstance(outcome, Interruption):
            self.body = outcome.body
        return outcome

    def run(self, batch):
        return self.runner.run(batch, 0, monotonic_ns())

    def close(self):
        self.runner.close()


class AmongOthers(InOne):
    """Runs attempts with the runner of a process that runs several on one event loop."""

    def new_runner(self, codec, options):
        return TaskRunner(codec, self.saver, Deadlines(never_kill), **options)

    def run(self, batch):
        return asyncio.run(self.runner.run_awaited(batch, 0, monotonic_ns()))


WAYS = [
    *[(InOne, Mails, how) for how in plain],
    *[(InOne, MailsLater, how) for how in awaited],
    *[(AmongOthers, MailsLater, how) for how in awaited],
]


@pytest.fixture(autouse=True)
def nothing_sent():
    sent.clear()


@pytest.mark.parametrize("middleware", [(), (swallowing,)], ids=["", "middleware"])
@pytest.mark.parametrize(("place", "kind", "how"), WAYS)
def test_an_interrupted_job_is_done_when_all_its_work_is(place, kind, how, middleware):
    attempts = place(kind(how=how), middleware=middleware)
    outcome = attempts.attempt(drain_after=2)
    assert isinstance(outcome, Interruption)
    assert outcome.ending == "interrupted"
    assert sent.total() < len(MAILS)
    assert b'"is_done":false' in outcome.body
    assert attempts.attempt() is None
    attempts.close()
    assert sent == Counter(MAILS)


@pytest.mark.parametrize("kind", [InAWorker, WithFakes])
def test_after_an_interruption_every_call_raises_again(kind):
    context = kind(Plain()).attempt(drain_after=0)
    with pytest.raises(JobInterrupted):
        context.checkpoint()
    assert isinstance(context.interruption, JobInterrupted)
    calls = [
        context.checkpoint,
        partial(context.checkpoint, flush=True),
        partial(context.step, "a", pytest.fail),
        lambda: asyncio.run(awaiting(context.step("a", send_later, 1))),
        partial(context.sleep_for, 60, name="a while"),
        partial(context.sleep_until, 0, name="no while"),
        partial(context.enqueue, Mails(how=""), name="next"),
    ]
    for call in calls:
        with pytest.raises(JobInterrupted):
            call()
    context.progress(1)
    assert not sent


async def awaiting(step):
    await step


class Walk(Job, queue="walks"):
    left: int = 0
    right: int = 0

    def run(self, context):
        right = context.iterate("abc", cursor="right")
        with contextlib.suppress(BaseException):
            for _ in context.iterate("abc", cursor="left"):
                pass
        for _ in right:
            send(0)


def test_a_loop_that_begins_after_an_interruption_does_nothing():
    context = FakeContext(draining_after=2)
    with pytest.raises(JobInterrupted):
        Walk().run(context)
    assert not sent
    job = context.resume(Walk())
    assert (job.left, job.right) == (2, 0)


# Sleeps, and steps that are tried again


class Naps(Job, queue="mails", attempts=1):
    how: str
    ran: int = 0

    def run(self, context):
        self.ran += 1
        naps[self.how](context)


def nap(context):
    with contextlib.suppress(BaseException):
        context.sleep_for(60, name="a minute")
        context.step("after it", send, 1)


def two_naps(context):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.sleep_for, 60, name="a minute")
        pool.submit(context.sleep_for, 3600, name="an hour")
    context.step("after them", send, 1)


def nap_that_fails(context):
    try:
        context.sleep_for(60, name="a minute")
    except BaseException:
        raise ValueError("not now") from None
    context.step("after it", send, 1)


def second_try(context):
    with contextlib.suppress(BaseException):
        context.step("flaky", retrying(fail_once, attempts=2, backoff=Constant(60)), context)
        context.step("after it", send, 1)


def second_try_within_a_step(context):
    context.step("all", second_try, context)


def fail_once(context):
    sent["tries"] += 1
    if sent["tries"] == 1:
        raise ConnectionError


def second_tries_awaited(context):
    async def flaky():
        fail_once(context)

    async def run():
        await asyncio.gather(
            context.step("flaky", retrying(flaky, attempts=2, backoff=Constant(60))),
            context.step("after it", send_later, 1),
            return_exceptions=True,
        )

    asyncio.run(run())


naps = {
    way.__name__: way
    for way in (nap, two_naps, nap_that_fails, second_try, second_try_within_a_step, second_tries_awaited)
}


@pytest.mark.parametrize("how", naps)
def test_a_swallowed_sleep_is_slept(how):
    with run_inline(Naps) as client:
        client.enqueue(Naps(how=how))
        first, *others = client.outcomes
    assert [str(each.ending) for each in client.outcomes] == ["interrupted"] * len(others) + ["succeeded"]
    assert len(others) >= 1
    assert isinstance(first.error, JobSleeps)
    assert first.run_after_ms > (time.time() + 50) * 1000
    assert sent[1] == 1


@pytest.mark.parametrize("kind", [InAWorker, InAWorkerOutside])
def test_a_sleep_is_saved_when_the_job_goes_back_and_not_before(kind):
    """A step beside it is saved before. If the process died then, the next attempt would not sleep."""

    async def run(context):
        slow = asyncio.ensure_future(context.step("slow", slowly))
        await asyncio.sleep(0)
        with contextlib.suppress(JobSleeps):
            context.sleep_for(60, name="a minute")
        await slow

    async def slowly():
        await asyncio.sleep(0.01)
        sent["slow"] += 1

    attempts = kind()
    asyncio.run(run(attempts.attempt()))
    went_back = attempts.context.body.encode()
    attempts.died()
    assert not read_metadata(attempts.body).sleeps
    context = attempts.attempt()
    with pytest.raises(JobSleeps):
        context.sleep_for(60, name="a minute")
    attempts.body = went_back
    context = attempts.attempt()
    context.sleep_for(60, name="a minute")
    context.step("after it", send, 1)
    attempts.died()
    assert list(read_metadata(attempts.body).sleeps) == ["a minute"]
    assert sent == {"slow": 1, 1: 1}


def test_what_the_test_itself_raises_is_no_outcome_of_a_job():
    class Fails(Job):
        def run(self, context):
            with contextlib.suppress(BaseException):
                context.sleep_for(60, name="a minute")
            pytest.fail("the test fails")

    with run_inline(Fails) as client, pytest.raises(pytest.fail.Exception, match="the test fails"):
        client.enqueue(Fails())


def test_the_longest_of_several_sleeps_counts_whichever_is_raised():
    context = InAWorker().attempt()
    for seconds in (60, 3600, 600):
        context.note_interruption(JobSleeps(seconds * 1000))
    context.note_interruption(JobInterrupted())
    assert context.interruption.until_ms == 3_600_000


# Innocent steps


def test_steps_beside_the_interrupted_one_are_kept():
    async def run(context):
        await context.step("first", send_later, 1)
        slow = asyncio.ensure_future(context.step("slow", slowly))
        await asyncio.sleep(0)
        await asyncio.gather(context.step("late", send_later, 3), slow, return_exceptions=True)

    async def slowly():
        await asyncio.sleep(0.01)
        sent["slow"] += 1

    for attempts in (InAWorker(), WithFakes()):
        context = attempts.attempt(drain_after=1)
        asyncio.run(run(context))
        assert isinstance(context.interruption, JobInterrupted)
        attempts.slept()
        asyncio.run(run(attempts.attempt()))
    assert sent == {1: 2, "slow": 2, 3: 2}


def test_a_time_limit_can_be_caught_and_ends_no_attempt_by_itself():
    context = InAWorker().attempt()
    with pytest.raises(JobTimeout):
        context.step("slow", overrun)
    assert context.interruption is None
    context.step("instead", send, 1)
    assert sent[1] == 1


def overrun():
    raise JobTimeout
