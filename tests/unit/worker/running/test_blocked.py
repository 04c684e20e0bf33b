"""Jobs whose recorded steps do not fit the code wait for code that does, and spend no attempt on it."""

import asyncio

import pytest

from pinlater import Job, JobSleeps
from pinlater.errors import NoHealthyShards, QueueNotFound, ShardConnectionFailed, StepMismatch
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import BodyMetadata, MismatchMark, read_metadata
from pinlater.testing import FakeContext
from pinlater.testing.clock import MovableClock
from pinlater.worker.running.blocked import blocked_wait
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Failure, Interruption
from tests.unit.jobs.workflow_attempts import Saver
from tests.unit.worker.fakes import batch_of, new_row

DAY = 86400


def resize(photo):
    return f"small {photo}"


class Album(Job, queue="albums", attempts=3):
    """The photos of this deployment are a matter of the class, as if the code had changed."""

    async def run(self, context):
        for photo in photos:
            context.step("resize", resize, photo)
        if is_sleepy:
            context.sleep_for(1000, name="until the next deployment")


photos, is_sleepy = [], True


@pytest.fixture
def deploy(monkeypatch):
    def change(*names, sleeps=True):
        monkeypatch.setattr("tests.unit.worker.running.test_blocked.photos", list(names))
        monkeypatch.setattr("tests.unit.worker.running.test_blocked.is_sleepy", sleeps)

    return change


class Bench:
    def __init__(self):
        self.now = 1000.0
        self.body = encode_body(Album())
        self.saver = Saver()
        codec = JobCodec([Album])
        self.runner = Runner(codec, self.saver, now=lambda: self.now, unknown_seconds=3 * DAY)

    def run(self):
        batch = batch_of("albums:s1:p1:7", bodies=[self.body], row=new_row())
        outcome = self.runner.run(batch, 0, 0)
        if isinstance(outcome, Interruption):
            self.body = outcome.body
        return outcome

    @property
    def mark(self):
        return read_metadata(self.body).mismatch


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.runner.close()


def test_a_deployment_that_does_not_fit_spends_nothing_and_one_that_does_goes_on(bench, deploy, caplog):
    deploy("cat", "dog")
    bench.run()
    deploy("dog", "cat")
    waits = []
    for _ in range(5):
        outcome = bench.run()
        assert isinstance(outcome, Interruption)
        assert (outcome.attempts, outcome.ending) == (None, "mismatch")
        waits.append(outcome.run_after_ms / 1000 - bench.now)
        assert ("waits for code that fits its steps: step 'resize' is resize('dog')" in outcome.status) == (
            len(waits) == 1
        )
        bench.now += 500
    assert waits[0] < min(waits[1:])
    assert 0.5 < waits[0] < 2
    assert waits[-1] <= 375
    assert bench.mark == MismatchMark("resize", 1_000_000)
    assert "no attempt spent: step 'resize' is resize('dog') now" in caplog.text
    deploy("cat", "dog", "cow", sleeps=False)
    assert bench.run() is None
    assert list(read_metadata(bench.saver.bodies[-1]).steps) == ["resize", "resize#2", "resize#3"]
    assert read_metadata(bench.saver.bodies[-1]).mismatch is None


def test_after_days_it_is_a_failed_attempt(bench, deploy):
    deploy("cat")
    bench.run()
    deploy("dog")
    bench.run()
    bench.now += 3 * DAY
    outcome = bench.run()
    assert isinstance(outcome, Failure)
    assert outcome.delay_ms is not None
    assert "StepMismatch: step 'resize' is resize('dog') now" in outcome.status


def test_another_step_that_does_not_fit_begins_to_wait_anew():
    error, mark = StepMismatch("x"), MismatchMark("a", 0)
    again = blocked_wait(mark, "a", error, now_ms=DAY * 1000, give_up_seconds=3 * DAY, chance=lambda: 0.5)
    assert (again.mark, again.until_ms, again.status) == (mark, (DAY + 300) * 1000, "")
    other = blocked_wait(mark, "b", error, now_ms=DAY * 1000, give_up_seconds=3 * DAY, chance=lambda: 0.5)
    assert (other.mark, other.until_ms) == (MismatchMark("b", DAY * 1000), (DAY + 1) * 1000)
    assert "waits for code" in other.status
    assert blocked_wait(None, "a", error, now_ms=0, give_up_seconds=None) is None


class Follows(Job, queue="albums", attempts=3):
    def run(self, context):
        context.enqueue(Album(), name="album")
        context.sleep_for(1000, name="until the next deployment")


class NoQueue(Saver):
    """Has no queue for other jobs until ``is_there``."""

    is_there = False

    def enqueue(self, follow_ups):
        if not self.is_there:
            raise QueueNotFound(f"there is no queue {follow_ups.queue!r}")
        return [f"{follow_ups.queue}:s1:p1:1"]


def test_a_missing_queue_is_waited_for_and_after_days_a_failed_attempt():
    runner = Runner(JobCodec([Follows]), saver := NoQueue(), now=lambda: now, unknown_seconds=DAY)
    body, endings = encode_body(Follows()), []
    for now, saver.is_there in ((0, False), (100, True), (200, False), (200 + DAY, False)):
        outcome = runner.run(batch_of("albums:s1:p1:7", bodies=[body], row=new_row()), 0, 0)
        endings.append(outcome.ending)
        if now != 100:  # the queue is deleted, and missed anew
            body = outcome.body if isinstance(outcome, Interruption) else body
        else:
            assert read_metadata(outcome.body).mismatch is None
            body = encode_body(Follows())
    runner.close()
    assert endings == ["no_queue", "slept", "no_queue", "failed"]
    assert "QueueNotFound: there is no queue 'albums'" in outcome.status


class ShardAway(Saver):
    """Cannot store other jobs, as far as it knows, until ``is_there``."""

    def __init__(self, error):
        super().__init__()
        self.error, self.is_there, self.repeats = error, False, []

    def read_messages(self, *_):
        if not self.is_there:
            raise self.error
        return []

    def enqueue(self, follow_ups):
        self.repeats.append(follow_ups.may_be_there)
        if not self.is_there:
            raise self.error
        return [f"{follow_ups.queue}:s1:p1:1"]


@pytest.mark.parametrize("error", [ShardConnectionFailed, NoHealthyShards])
def test_a_shard_that_is_away_is_waited_for_and_after_days_a_failed_attempt(error):
    saver, clock = ShardAway(error("shard 2 does not answer")), MovableClock()
    runner = Runner(JobCodec([Follows]), saver, now=clock.now_seconds, unknown_seconds=DAY)
    body, endings = encode_body(Follows()), []
    for seconds, saver.is_there in ((0, False), (100, False), (DAY, False), (1, True)):
        clock.advance(seconds)
        outcome = runner.run(batch_of("albums:s1:p1:7", bodies=[body], row=new_row()), 0, 0)
        endings.append((outcome.ending, "shard 2 does not answer" in outcome.status))
        body = outcome.body if isinstance(outcome, Interruption) else body
    runner.close()
    assert endings == [("slept", True), ("slept", False), ("failed", True), ("slept", False)]
    assert saver.repeats == [False, True, True, True], "so that what was stored without an answer is found"
    assert read_metadata(body).mismatch is None


class Listens(Job, queue="albums", attempts=3):
    def run(self, context):
        context.wait_for("photo")


def test_a_job_whose_own_shard_is_away_waits_too():
    saver = ShardAway(ShardConnectionFailed("shard 1 does not answer"))
    runner = Runner(JobCodec([Listens]), saver, unknown_seconds=DAY)
    body, marks = encode_body(Listens()), []
    for saver.is_there in (False, True):
        body = runner.run(batch_of("albums:s1:p1:7", bodies=[body], row=new_row()), 0, 0).body
        marks.append(read_metadata(body).mismatch is not None)
    runner.close()
    assert marks == [True, False]


class Swallows(Album, queue="albums"):
    async def run(self, context):
        await asyncio.gather(*[self.resize(context, photo) for photo in photos], return_exceptions=True)

    async def resize(self, context, photo):
        context.step("resize", resize, photo)


def test_a_job_that_swallows_it_is_no_success(deploy):
    codec = JobCodec([Swallows])
    runner = Runner(codec, saver := Saver(), unknown_seconds=DAY)
    for names, body in (("cat",), encode_body(Swallows())), (("dog",), None):
        deploy(*names)
        batch = batch_of("albums:s1:p1:7", bodies=[body or saver.bodies[-1]], row=new_row())
        outcome = runner.run(batch, 0, 0)
    runner.close()
    assert isinstance(outcome, Interruption)


class Child(Job, queue="albums"):
    def run(self, context):
        pass


def test_a_call_that_fits_again_is_not_waited_for_any_more():
    metadata = BodyMetadata(mismatch=MismatchMark("call resize", 5))
    metadata.accept_record("resize")
    assert metadata.mismatch is not None
    context = FakeContext(Album(), previous=with_metadata(metadata))
    with pytest.raises(JobSleeps):
        context.call(Child(), name="resize")
    assert context.recorded().mismatch is None


def test_results_that_fit_again_are_not_waited_for_any_more():
    metadata = BodyMetadata(mismatch=MismatchMark("results of call child", 5))
    context = FakeContext(Album(), previous=with_metadata(metadata), results={"child": [None]})
    context.call(Child(), name="child")
    context.checkpoint()
    assert context.recorded().mismatch is None


def with_metadata(metadata):
    context = FakeContext(Album())
    context._metadata = metadata
    return context
