"""Jobs that run again: the same job, at a later time, with all its attempts and none of its steps."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from time import monotonic_ns, time

import msgspec
import pytest

from pinlater import Constant, Job, JobState, RawJob
from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.next_run import NextRun
from pinlater.model.body_metadata import BodyMetadata, Recurrence, read_metadata
from pinlater.model.progress import Progress
from pinlater.testing import FakeContext, LocalServer, local_server, run_inline
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Failure, Interruption
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of, new_row

MOMENT = datetime(2030, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp() * 1000)


class Poll(Job, queue="polls", attempts=3):
    how: str = "after"
    seen: list[str] = msgspec.field(default_factory=list)

    def run(self, context):
        self.seen.append(context.step("look", str, len(self.seen)))
        if self.how == "after":
            context.reschedule(after=60)
        if self.how == "at":
            context.reschedule(after=1)
            context.reschedule(at=MOMENT)
        if self.how == "fails" and len(self.seen) < 3:
            context.reschedule(after=60)
            raise ValueError("no luck")
        if self.how == "unreadable":
            context.reschedule(after=60)
            self.seen.append(object())


class Raw(RawJob, queue="raw"):
    def run(self, context):
        context.reschedule(after=1)


class Saver(InBody):
    is_draining = False

    def save(self, batch, position, encode):
        encode()
        return True


def run(job, kept=None, now=1000.0, **about):
    codec = JobCodec([Poll])
    batch = batch_of("polls:s1:p1:7", bodies=[encode_body(job, kept)], row=new_row(), **about)
    return Runner(codec, Saver(), now=lambda: now).run(batch, 0, monotonic_ns())


def test_it_goes_back_with_its_record_and_nothing_of_its_run():
    kept = BodyMetadata(
        {"other": 1}, progress=Progress(1), sleeps={"a": 1}, enqueued={"b": "c"}, recurrence=Recurrence(5, run=2)
    )
    outcome = run(Poll(), kept, allowed=5, remaining=1)
    assert isinstance(outcome, Interruption)
    assert (outcome.run_after_ms, outcome.attempts) == (1_060_000, 5)
    assert read_metadata(outcome.body) == BodyMetadata(recurrence=Recurrence(1_060_000, run=3))
    assert JobCodec([Poll]).decode("polls", outcome.body).seen == ["0"]


def test_the_last_word_counts():
    assert run(Poll(how="at")).run_after_ms == MOMENT_MS


def test_an_attempt_that_fails_is_retried_as_usual():
    outcome = run(Poll(how="fails"))
    assert isinstance(outcome, Failure)
    assert outcome.delay_ms is not None


def test_a_record_that_is_no_json_any_more_is_a_failure():
    outcome = run(Poll(how="unreadable"))
    assert isinstance(outcome, Failure)
    assert "BodyInvalid" in outcome.status


def test_without_reschedule_the_job_succeeds():
    assert run(Poll(how="")) is None


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"after": 1, "at": 2},
        {"after": -1},
        {"after": float("nan")},
        {"after": float("inf")},
        {"at": float("nan")},
        {"at": time() * 1000},
    ],
)
def test_times_have_to_be_some(bad):
    job = Poll()
    for context in (FakeContext(job), RunContext(job, batch_of("polls:s1:p1:7"), 0, Saver())):
        with pytest.raises(ValueError, match="reschedule"):
            context.reschedule(**bad)
        assert context.next_run is None


def test_a_time_is_a_number():
    with pytest.raises(TypeError, match=r"reschedule\(after=...\) is a number of seconds, .* not datetime.timedelta"):
        NextRun.of(timedelta(days=1), None)
    with pytest.raises(TypeError, match=r"reschedule\(at=...\) takes a datetime or epoch seconds, not '2027'"):
        NextRun.of(None, "2027")


def test_what_is_over_is_due_at_once():
    assert NextRun.of(None, 5.5).due_ms(1000.0) == 5500
    assert NextRun.of(0, None).due_ms(1000.0) == 1_000_000


def test_a_time_may_be_any_kind_of_number():
    assert NextRun.of(Decimal("0.5"), None).due_ms(1000.0) == 1_000_500
    assert NextRun.of(None, Fraction(11, 2)).due_ms(1000.0) == 5500


def test_a_raw_job_cannot_tell_its_runs_apart():
    job = Raw(body=b"\xff")
    for context in (FakeContext(), RunContext(job, batch_of("raw:s1:p1:7"), 0, Saver())):
        with pytest.raises(BodyInvalid, match="RawJob"):
            job.run(context)


def test_the_run_knows_what_it_was_planned_for():
    job = Poll()
    context = RunContext(job, batch_of("polls:s1:p1:7", bodies=[encode_body(job)]), 0, Saver())
    assert context.scheduled_for is None
    body = context.body.of_next_run(MOMENT_MS)
    context = RunContext(job, batch_of("polls:s1:p1:7", bodies=[body]), 0, Saver())
    assert context.scheduled_for == MOMENT
    assert FakeContext(scheduled_for=MOMENT).scheduled_for == MOMENT


def test_the_fake_context_notes_it():
    context = FakeContext()
    Poll().run(context)
    assert (context.next_run.after, context.next_run.at) == (60, None)


def test_inline_it_stays_pending():
    with run_inline(Poll) as client:
        handle = client.enqueue(Poll())
        client.assert_succeeded()
        [outcome] = client.outcomes
        assert (outcome.ending, outcome.runs_again) == ("rescheduled", False)
        assert handle.status().state is JobState.PENDING


def test_on_a_real_server_it_runs_again_at_its_time(tmp_path):
    with LocalServer(tmp_path) as server:
        server.advance(1000)
        client = server.client(Poll)
        handle = client.enqueue(Poll())
        for number in range(3):
            [outcome] = server.run_worker(Poll)
            assert (outcome.ending, outcome.attempt, outcome.job.seen[-1]) == ("rescheduled", 1, str(number))
            assert handle.status().attempts_remaining == 3
            server.advance(30)
            assert server.run_worker(Poll) == []
            server.advance(31)
        assert client.count("polls", JobState.PENDING) == 1


def test_on_a_real_server_a_failed_run_keeps_its_record(tmp_path):
    with LocalServer(tmp_path) as server:
        handle = server.client(Poll).enqueue(Poll(how="fails", seen=["0"]))
        for ending in ("failed", "failed", "failed"):
            assert [outcome.ending for outcome in server.run_worker(Poll)] == [ending]
            server.advance(60)
        assert handle.status().state is JobState.FAILED


# Continue as new


class Endless(Job, queue="polls", attempts=2, backoff=Constant(0)):
    page: int = 0
    total: int = 0

    def run(self, context):
        pages = [context.step("read", read, self.page + number) for number in range(10)]
        self.page += len(pages)
        self.total += sum(pages)
        if self.page < 50:
            context.reschedule(after=0)
        if accidents.get(self.page, 0):
            accidents[self.page] -= 1
            raise OSError("after the last step of a run")


reads, accidents = [], {}


def read(page):
    reads.append(page)
    return page


@pytest.mark.parametrize("accident", [None, 10, 30, 50])
def test_a_workflow_continues_as_new_with_a_small_body_and_each_step_once(tmp_path, accident):
    reads.clear()
    accidents.clear()
    accidents.update({} if accident is None else {accident: 1})
    with LocalServer(tmp_path) as server:
        handle = server.client(Endless).enqueue(Endless())
        descriptors, sizes = set(), []
        while server.run_worker(Endless, until_empty=False):
            info = handle.status(include_body=True)
            descriptors.add(info.descriptor)
            sizes.append(len(info.body))
        assert info.state is JobState.SUCCEEDED
    assert reads == list(range(50)), "a run that ended again had its steps"
    assert len(descriptors) == 1
    assert max(sizes) < 900
    assert len(sizes) == 5 + (accident is not None)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("is_answered", [False, True])
def test_killed_at_the_end_of_a_run_there_is_one_next_run(tmp_path, is_answered, monkeypatch):
    """Killed before the change in the store, the run ends again; after it, there is nothing to repeat."""
    reads.clear()
    accidents.clear()
    report = local_server._report

    def dies(*ending):
        if is_answered:
            report(*ending)
        raise Killed

    with LocalServer(tmp_path) as server:
        handle = server.client(Endless).enqueue(Endless())
        monkeypatch.setattr(local_server, "_report", dies)
        with pytest.raises(Killed):
            server.run_worker(Endless)
        monkeypatch.undo()
        server.advance(3600)
        outcomes = server.run_worker(Endless)
        assert handle.status().state is JobState.SUCCEEDED
    assert reads == list(range(50))
    assert len(outcomes) == (4 if is_answered else 5)
    assert outcomes[-1].job.total == sum(range(50))
