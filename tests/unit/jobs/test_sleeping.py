"""Sleeps that occupy no process: once each, in every kind of context."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from time import monotonic_ns, time

import msgspec
import pytest

from pinlater import Job, JobInterrupted, JobSleeps, JobState, RawJob
from pinlater.errors import BodyInvalid, BodyTooLarge
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import BodyMetadata, read_metadata
from pinlater.testing import FakeContext, LocalServer, run_inline
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Failure, Interruption
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of, new_row

DAY = 86400


class Invite(Job, queue="invites", attempts=2):
    days: float = 3
    log: list[str] = msgspec.field(default_factory=list)

    def run(self, context):
        context.step("invite", done.append, "invite")
        self.log.append("before")
        context.sleep_for(self.days * DAY, name="to answer")
        context.step("remind", done.append, "remind")
        context.sleep_for(self.days * DAY, name="to answer again")
        if context.attempt == 1:
            raise ValueError("this attempt fails awake")
        context.step("give up", done.append, "give up")


class Raw(RawJob, queue="raw"):
    def run(self, context):
        context.sleep_for(1, name="a")


class Plain(Job):
    def run(self, context):
        pass


done = []


@pytest.fixture(autouse=True)
def forget():
    done.clear()


class Saver(InBody):
    is_draining = False

    def __init__(self):
        self.bodies = []

    def save(self, batch, position, encode):
        self.bodies.append(encode().body)
        return True


def worker_context(job, body=None, saver=None):
    return RunContext(job, batch_of("plain:s1:p1:7", bodies=[body or encode_body(job)]), 0, saver or Saver())


@pytest.fixture(params=[worker_context, FakeContext])
def context(request):
    return request.param(Plain())


def sleep(context, *moment, **name):
    before = time()
    with pytest.raises(JobSleeps) as caught:
        context.sleep_for(*moment, **name)
    return caught.value.until_ms / 1000, before


def test_a_sleep_ends_the_attempt_with_its_end(context):
    until, before = sleep(context, 60, name="a")
    assert before + 60 <= until <= time() + 60.002


def fake_after(context, job):
    return FakeContext(job, sleeps=context.sleeps)


def worker_after(context, job):
    return worker_context(job, context.body.encode())


@pytest.mark.parametrize(("kind", "after"), [(worker_context, worker_after), (FakeContext, fake_after)])
def test_each_is_slept_once(kind, after):
    job = Plain()
    context = kind(job)
    sleep(context, 60, name="a")
    context = after(context, job)
    context.sleep_for(60, name="a")
    sleep(context, 60, name="b")
    context = after(context, job)
    context.sleep_until(time() + 60, name="a")
    context.sleep_for(60, name="b")
    sleep(context, 60, name="b")
    assert list(after(context, job)._metadata.sleeps) == ["a", "b", "b#2"]


@pytest.mark.parametrize("as_moment", [float, lambda at: datetime.fromtimestamp(at, UTC), datetime.fromtimestamp])
def test_a_sleep_up_to_a_moment(context, as_moment):
    at = float(int(time()) + 100)
    with pytest.raises(JobSleeps) as caught:
        context.sleep_until(as_moment(at), name="a")
    assert caught.value.until_ms == at * 1000


def test_seconds_may_be_of_any_kind_of_number(context):
    for seconds in (60, 60.0, Decimal(60), Fraction(60)):
        with pytest.raises(JobSleeps):
            context.sleep_for(seconds, name=f"{seconds!r}")


def test_what_is_over_does_not_wait(context):
    context.sleep_for(0, name="a")
    context.sleep_until(time() - 1, name="b")
    context.sleep_until(datetime.now(UTC) - timedelta(days=9), name="c")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_seconds_have_to_be_some(context, seconds):
    with pytest.raises(ValueError, match="cannot be negative or endless"):
        context.sleep_for(seconds, name="a")


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), 1.8e12])
def test_moments_have_to_be_near(context, moment):
    with pytest.raises(ValueError, match="epoch seconds"):
        context.sleep_until(moment, name="a")


@pytest.mark.parametrize("moment", [timedelta(days=3), "tomorrow", None])
def test_a_moment_is_no_duration(context, moment):
    with pytest.raises(TypeError, match="sleep_until takes a datetime or epoch seconds, not "):
        context.sleep_until(moment, name="a")


@pytest.mark.parametrize("kind", [worker_context, FakeContext])
def test_a_raw_job_cannot_sleep(kind):
    job = Raw(body=b"\xff")
    with pytest.raises(BodyInvalid, match="RawJob"):
        job.run(kind(job))


def test_the_record_is_saved_before_and_the_sleep_goes_with_the_job():
    job, saver = Plain(), Saver()
    context = worker_context(job, saver=saver)
    until, _ = sleep(context, 60, name="a")
    assert saver.bodies == [encode_body(job)], "a process that dies now has not slept"
    assert read_metadata(context.body.encode()) == BodyMetadata(sleeps={"a": round(until * 1000)})
    worker_context(job, context.body.encode()).sleep_for(60, name="a")


def test_a_record_that_is_too_large_fails_awake():
    class Refuses(Saver):
        def save(self, *_):
            raise BodyTooLarge("2 MB")

    context = worker_context(Plain(), saver=Refuses())
    with pytest.raises(BodyTooLarge):
        context.sleep_for(60, name="a")
    assert read_metadata(context.body.encode()) == BodyMetadata()


def test_the_runner_tells_when_to_go_on():
    codec, row, before = JobCodec([Invite]), new_row(), time()
    batch = batch_of("invites:s1:p1:7", bodies=[encode_body(Invite())], row=row)
    runner = Runner(codec, Saver())
    outcome = runner.run(batch, 0, monotonic_ns())
    assert isinstance(outcome, Interruption)
    assert before + 3 * DAY <= outcome.run_after_ms / 1000 <= time() + 3 * DAY + 1
    assert read_metadata(outcome.body).steps == {"invite": None}
    assert read_metadata(outcome.body).sleeps == {"to answer": outcome.run_after_ms}
    assert codec.decode("invites", outcome.body).log == ["before"]
    bad = batch_of("invites:s1:p1:8", bodies=[encode_body(Invite(days=-1))], row=new_row())
    assert isinstance(runner.run(bad, 0, monotonic_ns()), Failure)


def test_the_fake_context_goes_on_with_what_the_one_before_has_slept():
    job, first = Invite(), FakeContext(attempt=2)
    with pytest.raises(JobInterrupted):
        job.run(first)
    assert (first.ran, list(first.sleeps)) == (["invite"], ["to answer"])
    second = FakeContext(attempt=2, steps=first.steps, sleeps=first.sleeps)
    with pytest.raises(JobSleeps):
        first.resume(job).run(second)
    assert (second.ran, list(second.sleeps)) == (["remind"], ["to answer", "to answer again"])
    second.resume(job).run(FakeContext(attempt=2, steps=second.steps, sleeps=second.sleeps))
    assert done == ["invite", "remind", "give up"]


def test_inline_nobody_waits_and_no_attempt_is_spent():
    with run_inline(Invite) as client:
        before = time()
        handle = client.enqueue(Invite())
        client.assert_succeeded()
    assert done == ["invite", "remind", "give up"]
    endings = [(outcome.ending, outcome.attempt) for outcome in client.outcomes]
    assert endings == [("interrupted", 1), ("interrupted", 1), ("failed", 1), ("succeeded", 2)]
    assert handle.status().run_after_ms >= (before + 3 * DAY) * 1000
    assert handle.status().state is JobState.SUCCEEDED


class Wake(Job, queue="wakes"):
    at: float

    def run(self, context):
        context.sleep_until(self.at, name="night")


def test_inline_the_time_of_the_client_counts():
    with run_inline(Wake) as client:
        client.advance(DAY)
        client.enqueue(Wake(at=time() + DAY / 2))
        assert [str(outcome.ending) for outcome in client.outcomes] == ["succeeded"]


@pytest.fixture
def local_server(tmp_path):
    with LocalServer(tmp_path) as server:
        yield server


def test_on_a_server_it_sleeps_as_long_as_it_said(local_server):
    client = local_server.client(Invite)
    client.enqueue(Invite(), attempts=2)
    for expected in (["invite"], ["invite", "remind"]):
        assert [outcome.ending for outcome in local_server.run_worker(Invite)] == ["interrupted"]
        assert done == expected
        local_server.advance(3 * DAY - 60)
        assert local_server.run_worker(Invite) == []
        local_server.advance(61)
    assert [(outcome.ending, outcome.attempt) for outcome in local_server.run_worker(Invite)] == [("failed", 1)]
    local_server.advance(60)
    assert [(outcome.ending, outcome.attempt) for outcome in local_server.run_worker(Invite)] == [("succeeded", 2)]
    assert done == ["invite", "remind", "give up"]


@pytest.mark.parametrize("seconds", ["3d", timedelta(days=3), None])
def test_a_time_that_is_no_number_is_refused_in_words(seconds):
    with pytest.raises(TypeError, match="the time of a sleep is a number of seconds, such as 3"):
        FakeContext(Plain()).sleep_for(seconds, name="a")


@pytest.mark.parametrize("timeout", ["3d", timedelta(days=3)])
def test_a_timeout_that_is_no_number_is_refused_in_words(timeout):
    context = FakeContext(Plain())
    for wait in (lambda: context.wait_for("a", timeout=timeout), lambda: context.call(Plain(), timeout=timeout)):
        with pytest.raises(TypeError, match="the timeout of a wait is a number of seconds"):
            wait()


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), 1e20])
def test_an_endless_timeout_is_none(timeout):
    with pytest.raises(ValueError, match="too long; leave it out to wait without a limit"):
        FakeContext(Plain()).wait_for("a", timeout=timeout)
