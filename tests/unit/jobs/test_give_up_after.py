"""The time that all attempts of a job have together."""

import asyncio
import time
from datetime import timedelta

import pytest

from pinlater import Constant, Discard, Job, JobExpired, JobState, Retry, retrying
from pinlater.client.jobs import JobEncoder
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import BodyMetadata, Recurrence, read_metadata
from pinlater.model.policy import Policy
from pinlater.testing import LocalServer, run_inline
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.outcome import Failure, Interruption
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of, new_row

ENQUEUED = 1_900_000_000.0
"""Epoch seconds by the clock of the server, years ahead of the clock of this machine."""


class Post(Job, queue="posts", give_up_after=600):
    how: str = "return"

    def run(self, context):
        seen.append(self.how)
        ways[self.how](context)


class PostLater(Job, queue="posts", give_up_after=600):
    how: str = "return"

    async def run(self, context):
        seen.append(self.how)
        await asyncio.sleep(0 if self.how == "return" else 20)


class Hourly(Job, queue="hourly", give_up_after=600, every=3600, attempts=3, backoff=Constant(500)):
    def run(self, context):
        seen.append(context.attempt)
        raise ValueError("again")


def fail(context):
    raise ValueError("some reason")


def retry(after):
    def run(context):
        raise Retry(after=after, reason="busy")

    return run


def discard(context):
    raise Discard("no")


def refuse():
    raise ConnectionError("refused")


ways = {
    "return": lambda context: None,
    "fail": fail,
    "retry in 50": retry(50),
    "retry in 150": retry(150),
    "discard": discard,
    "nap": lambda context: context.sleep_for(90, name="nap"),
    "sleep": lambda context: context.sleep_for(150, name="sleep"),
    "sleep until the end": lambda context: context.sleep_until(ENQUEUED + 600, name="sleep"),
    "sleep until 500": lambda context: context.sleep_until(ENQUEUED + 500, name="sleep"),
    "step": lambda context: context.step("ask", retrying(refuse, attempts=3, backoff=Constant(150))),
    "spin": lambda context: time.sleep(20),
}
seen = []
codec = JobCodec([Post, PostLater])


class FakeSaver(InBody):
    is_draining = False
    is_saving = False

    def save(self, batch, position, encode):
        return True


@pytest.fixture
def run():
    """Run a job; unless said otherwise 500 seconds after its enqueue, 100 before its end."""
    seen.clear()
    clock = [0.0]
    runner = Runner(codec, FakeSaver(), now=lambda: clock[0])

    def run(job, after=500, kept=None, is_told_when=True, **about):
        clock[0] = ENQUEUED + after
        created_ms = int(ENQUEUED * 1000) if is_told_when else None
        body = encode_body(job, kept)
        run.batch = batch_of("posts:s1:p1:7", bodies=[body], row=new_row(), created_ms=created_ms, **about)
        return runner.run(run.batch, 0, time.monotonic_ns())

    yield run
    runner.close()


def given_up(outcome):
    assert isinstance(outcome, Failure)
    assert (outcome.delay_ms is None, outcome.ending) == (True, "given_up")
    return outcome.status


def test_no_attempt_begins_after_give_up_after(run):
    assert run(Post(), after=500) is None
    assert seen == ["return"]
    status = given_up(run(Post(), after=601))
    assert "JobExpired: it was not run, since its give_up_after of 600 s is over" in status
    assert status.count("\n") == 1, "there is no place to tell of"
    assert seen == ["return"]


def test_no_task_begins_any_more():
    seen.clear()
    runner = TaskRunner(codec, FakeSaver(), Deadlines(never_kill))
    body, now_ms = encode_body(PostLater()), int(time.time() * 1000)
    for age_seconds in (0, 601):
        batch = batch_of("posts:s1:p1:7", bodies=[body], created_ms=now_ms - 1000 * age_seconds)
        outcome = asyncio.run(runner.run_awaited(batch, 0, time.monotonic_ns()))
        assert age_seconds == 0 or "it was not run" in given_up(outcome)
    assert seen == ["return"]
    body = encode_body(PostLater(how="wait"))
    batch = batch_of("posts:s1:p1:7", bodies=[body], created_ms=int((time.time() - 599.8) * 1000))
    outcome = asyncio.run(runner.run_awaited(batch, 0, time.monotonic_ns()))
    assert "its give_up_after of 600 s is over" in given_up(outcome)


@pytest.mark.parametrize("job", [Post(how="spin"), PostLater(how="spin")])
def test_a_run_is_stopped(run, job):
    began = time.monotonic()
    status = given_up(run(job, after=599.4))  # long enough for the job to begin, on a busy machine
    assert "JobExpired: its give_up_after of 600 s is over" in status
    assert "test_give_up_after.py" in status, "where it was"
    assert 10 < run.batch.area.kill_ns[0] / 1e9 - began < 20, "10 s later at the latest"


def test_the_keeper_knows_of_it_should_the_process_die(run):
    began = time.monotonic()
    run(Post())
    assert 50 < run.batch.area.give_up_ns[0] / 1e9 - began < 150
    run(Post(), kept=BodyMetadata(recurrence=Recurrence(int(ENQUEUED * 1000), schedule="every 3600")))
    assert run.batch.area.give_up_ns[0] == 0, "the next tick is to come in any case"


def test_a_retry_in_time_is_not_changed_by_give_up_after(run):
    for outcome in (run(Post(how="fail"), after=100), run(Post(how="retry in 50"))):
        assert outcome.delay_ms is not None
        assert "too late" not in outcome.status
    assert (outcome.ending, outcome.delay_ms) == ("retried", 50_000)


def test_a_failure_that_would_be_retried_too_late_is_final(run):
    status = given_up(run(Post(how="fail"), kept=BodyMetadata(policy=Policy(Constant(101)))))
    assert "ValueError: some reason (too late to try again: give_up_after=600)\n" in status
    assert "in fail" in status, "where it was"
    assert "Retry: busy (too late to try again: give_up_after=600)" in given_up(run(Post(how="retry in 150")))


def test_final_failures_are_not_changed_by_give_up_after(run):
    outcome = run(Post(how="discard"))
    assert (outcome.delay_ms is None, outcome.ending) == (True, "discarded")
    outcome = run(Post(how="retry in 150"), remaining=1)
    assert (outcome.delay_ms is None, outcome.ending) == (False, "retried")
    assert "too late" not in outcome.status


def test_no_sleep_goes_beyond_give_up_after(run):
    nap = run(Post(how="nap"))
    assert isinstance(nap, Interruption)
    assert nap.run_after_ms == (ENQUEUED + 590) * 1000
    status = given_up(run(Post(how="sleep")))
    assert "JobExpired: it would sleep until its give_up_after of 600 s is over" in status
    assert "it would sleep" in given_up(run(Post(how="sleep until the end")))
    assert run(Post(how="sleep until 500")) is None, "that is now"
    status = given_up(run(Post(how="step")))
    assert "ConnectionError: refused (too late to try again: give_up_after=600)" in status


def test_the_end_of_a_job_is_told_however_many_attempts_there_might_be(run):
    for how, text in [("retry in 150", "too late"), ("discard", "Discard: no")]:
        assert text in run(Post(how=how), allowed=100, remaining=50).status


def test_each_run_of_a_job_that_runs_again_has_its_own_time(run):
    again = BodyMetadata(recurrence=Recurrence(int((ENQUEUED + 7200) * 1000), 2))
    assert run(Post(), after=7200 + 500, kept=again) is None
    assert "was not run" in given_up(run(Post(), after=7200 + 601, kept=again))


def test_a_server_that_does_not_say_when_it_was_enqueued_sets_no_end(run):
    assert run(Post(), after=86400, is_told_when=False) is None
    assert isinstance(run(Post(how="sleep"), is_told_when=False), Interruption)


def test_invalid_metadata_in_a_body_sets_no_deadline(run):
    assert run(Post(), kept=BodyMetadata(trace={"$again": 7})) is None
    body = encode_body(Post(how="fail"))[:-1] + b',"$again":7}'
    batch = batch_of("posts:s1:p1:7", bodies=[body], created_ms=None)
    assert "some reason" in Runner(codec, FakeSaver()).run(batch, 0, time.monotonic_ns()).status


# By enqueue


def test_it_travels_with_the_job(run):
    body = JobEncoder(give_up_after=30).struct(Post()).body
    assert read_metadata(body).policy == Policy(give_up_after=30)
    assert "was not run" in given_up(run(Post(), after=31, kept=read_metadata(body)))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"give_up_after": 0}, "give_up_after=0 is in seconds"),
        ({"delay": 700}, "a Post that waits for 700 s would never run: its give_up_after of 600 s"),
        ({"run_at": time.time() + 86400, "give_up_after": 3600}, "would never run"),
    ],
)
def test_what_would_never_run_is_refused(options, why):
    with pytest.raises(ValueError, match=why):
        JobEncoder(**options).struct(Post())


def test_what_waits_may_have_longer():
    assert JobEncoder(delay=700, give_up_after=800).struct(Post()).runAfterTimestampMillis
    assert JobEncoder(delay=500).struct(Post()).runAfterTimestampMillis


# In the testing kit


def test_inline_it_holds_for_what_can_be_known():
    seen.clear()
    with run_inline(Post) as client:
        client.enqueue(Post(how="fail"), backoff=Constant(601), attempts=3)
        client.enqueue(Post(how="fail"), backoff=Constant(5), attempts=3)
        assert [outcome.ending for outcome in client.outcomes] == ["discarded", "failed", "failed", "failed"]


def test_on_a_server_it_holds_over_all_attempts(tmp_path):
    seen.clear()
    with LocalServer(tmp_path) as server:
        client = server.client(Post)
        handle = client.enqueue(Post(how="fail"), backoff=Constant(250), attempts=9)
        endings = []
        for _ in range(3):
            endings += [(outcome.ending, outcome.error.__class__) for outcome in server.run_worker(Post)]
            server.advance(251)
        assert endings == [("failed", ValueError), ("failed", ValueError), ("discarded", ValueError)]
        assert handle.status().state is JobState.FAILED
        assert len(seen) == 3


def test_on_a_server_what_was_left_lying_is_not_run(tmp_path):
    seen.clear()
    with LocalServer(tmp_path) as server:
        client = server.client(Post)
        handle = client.enqueue(Post())
        server.advance(601)
        [outcome] = server.run_worker(Post)
        assert (outcome.ending, type(outcome.error)) == ("discarded", JobExpired)
        client.retry_failed("posts")
        [outcome] = server.run_worker(Post)
        assert type(outcome.error) is JobExpired, "also of one that a person retries"
        [*_, last] = handle.status().failed_attempts
        assert last.error == "JobExpired: it was not run, since its give_up_after of 600 s is over"
        assert seen == []


def test_a_tick_that_came_too_late_is_left_out_and_the_next_one_comes(tmp_path):
    seen.clear()
    with LocalServer(tmp_path) as server:
        server.run_worker(Hourly)
        server.advance(3600 - server.now.timestamp() % 3600 + 60)
        [first] = server.run_worker(Hourly)
        assert first.ending == "failed", "60 s after the tick, 500 s before the next attempt"
        server.advance(501)
        [second] = server.run_worker(Hourly)
        assert "too late to try again" in second.status
        assert seen == [1, 2]
        server.advance(3600 + timedelta(minutes=20).total_seconds())
        [late] = server.run_worker(Hourly)
        assert type(late.error) is JobExpired
        server.advance(3600 - server.now.timestamp() % 3600 + 60)
        server.run_worker(Hourly)
        assert seen == [1, 2, 1]
