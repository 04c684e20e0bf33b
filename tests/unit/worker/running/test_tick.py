"""Ticks of periodic jobs: each has one run, none ends the job, and a deployment may change everything."""

import asyncio
from datetime import UTC, datetime
from time import monotonic_ns, time

import msgspec
import pytest

from pinlater import Constant, Job, Retry
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import (
    PERIODIC_SPARE_ATTEMPTS,
    UNDO_ATTEMPTS,
    BodyMetadata,
    LastRun,
    Recurrence,
    SagaMark,
    read_metadata,
)
from pinlater.worker.claim_table.counters import TICK_FAILED
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.running.tick import reset_body
from pinlater.worker.session.outcome import Failure, Interruption
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of, new_row
from tests.unit.worker.ticking_jobs import EVERY_MINUTE, MINUTE_MS, TICK_MS, Plain, Tidy, periodic_body, seen


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


class Saver(InBody):
    is_draining = False

    def save(self, batch, position, encode):
        encode()
        return True


def run(body, attempt=1, now_ms=TICK_MS + 5, told=3):
    codec = JobCodec([Tidy, Plain, Trip])
    allowed = told + PERIODIC_SPARE_ATTEMPTS
    batch = batch_of("tidy:s1:p1:7", bodies=[body], row=new_row(), allowed=allowed, remaining=allowed + 1 - attempt)
    runner = Runner(codec, Saver(), now=lambda: now_ms / 1000)
    return runner.run(batch, 0, monotonic_ns()), batch


def ended(result, attempts=1):
    return LastRun(TICK_MS, TICK_MS + 5, TICK_MS + 5, result, attempts)


def record_of(outcome):
    return JobCodec([Tidy]).decode("tidy", outcome.body)


def test_a_success_leads_to_the_next_tick():
    outcome, _ = run(periodic_body(steps={"a": 1}))
    assert (outcome.run_after_ms, outcome.attempts, outcome.status) == (
        TICK_MS + MINUTE_MS,
        3 + PERIODIC_SPARE_ATTEMPTS,
        "",
    )
    following = Recurrence(TICK_MS + MINUTE_MS, 5, EVERY_MINUTE, last=ended("succeeded"))
    assert read_metadata(outcome.body) == BodyMetadata(recurrence=following)
    assert record_of(outcome).runs == 1
    assert seen == [datetime.fromtimestamp(TICK_MS / 1000, UTC)]


def test_missed_ticks_are_one():
    outcome, _ = run(periodic_body(), now_ms=TICK_MS + 10 * MINUTE_MS + 1)
    assert outcome.run_after_ms == TICK_MS + 11 * MINUTE_MS


def test_no_tick_comes_twice_where_the_worker_s_clock_is_behind():
    outcome, _ = run(periodic_body(), now_ms=TICK_MS - 3000)
    assert outcome.run_after_ms == TICK_MS + MINUTE_MS


def test_a_failed_attempt_is_retried_within_its_tick():
    for attempt in (1, 2):
        outcome, batch = run(periodic_body("fails"), attempt)
        assert isinstance(outcome, Failure)
        assert outcome.delay_ms == 5000
        assert f"[attempt {attempt}/3 " in outcome.status
        assert batch.area.delays[0] == 5000
    assert len(seen) == 2


def test_the_last_failure_leads_to_the_next_tick_and_is_told():
    outcome, batch = run(periodic_body("fails"), 3)
    assert isinstance(outcome, Interruption)
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + MINUTE_MS, 3 + PERIODIC_SPARE_ATTEMPTS)
    assert "[attempt 3/3 " in outcome.status
    assert "ValueError: dusty" in outcome.status
    assert batch.area.delays[0] == 0
    following = Recurrence(TICK_MS + MINUTE_MS, 5, EVERY_MINUTE, failures=1, last=ended("failed", attempts=3))
    assert read_metadata(outcome.body) == BodyMetadata(recurrence=following)


def test_a_tick_that_failed_is_counted_as_that_and_not_as_rescheduled():
    endings = {how: run(periodic_body(how), 3)[0].ending for how in ("", "fails", "discards", "is unreadable")}
    assert endings == {"": "rescheduled", "fails": TICK_FAILED, "discards": "discarded", "is unreadable": TICK_FAILED}
    assert run(periodic_body(), 4)[0].ending == TICK_FAILED  # its last attempt was lost


def test_failed_ticks_in_a_row_are_kept_count_of_until_one_succeeds():
    def failures_after(body, attempt=3):
        return read_metadata(run(body, attempt)[0].body).recurrence.failures

    failed = run(periodic_body("fails"), 3)[0].body
    assert failures_after(failed) == 2
    assert failures_after(failed.replace(b'"fails"', b'"discards"')) == 0
    assert failures_after(failed.replace(b'"fails"', b'""')) == 0
    assert failures_after(failed, 4) == 2  # not even run


def test_after_failures_the_record_is_the_one_that_was_saved():
    assert record_of(run(periodic_body("fails"), 3)[0]).runs == 0
    assert record_of(run(periodic_body("saves and fails"), 3)[0]).runs == 1


def test_a_discard_leads_to_the_next_tick_at_once():
    outcome, _ = run(periodic_body("discards"))
    assert outcome.run_after_ms == TICK_MS + MINUTE_MS
    assert "not today" in outcome.status
    assert read_metadata(outcome.body).recurrence.last == ended("discarded")


def test_what_was_unreadable_in_the_end_has_failed():
    assert isinstance(run(periodic_body("is unreadable"))[0], Failure)
    outcome, _ = run(periodic_body("is unreadable"), 3)
    assert "BodyInvalid" in outcome.status
    assert record_of(outcome).how == "is unreadable"


def test_an_interruption_stays_within_its_tick():
    outcome, _ = run(periodic_body("is interrupted"))
    assert (outcome.run_after_ms, outcome.attempts) == (None, None)
    assert read_metadata(outcome.body).recurrence == Recurrence(TICK_MS, 4, EVERY_MINUTE, has_begun=True)


def test_a_job_may_say_when_it_runs_next():
    outcome, _ = run(periodic_body("says when"))
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + 7000, 3 + PERIODIC_SPARE_ATTEMPTS)


@pytest.mark.parametrize("attempt", [4, 11])
def test_a_tick_whose_last_attempt_was_lost_is_given_up_without_a_run(attempt):
    outcome, _ = run(periodic_body(), attempt)
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + MINUTE_MS, 3 + PERIODIC_SPARE_ATTEMPTS)
    assert "no attempts left" in outcome.status
    assert seen == []


def test_a_failed_periodic_job_retried_by_hand_ends_without_a_run():
    assert run(periodic_body(), 3 + PERIODIC_SPARE_ATTEMPTS)[0] is None
    assert seen == []


def test_a_job_of_another_schedule_ends_without_a_run():
    assert run(periodic_body(schedule="every 30.0"))[0] is None
    body = encode_body(Plain(), BodyMetadata(recurrence=Recurrence(TICK_MS, schedule=EVERY_MINUTE)))
    assert run(body)[0] is None
    assert seen == []


def begun(how="", schedule="every 30.0", **kept):
    """Return the body of a job of another schedule whose run was interrupted."""
    return encode_body(Tidy(how=how), BodyMetadata(recurrence=Recurrence(TICK_MS, 4, schedule, has_begun=True), **kept))


@pytest.mark.parametrize(("body", "attempt"), [(begun(), 1), (periodic_body(schedule="every 30.0"), 2)])
def test_a_run_of_another_schedule_that_has_begun_is_brought_to_its_end(body, attempt):
    assert run(body, attempt)[0] is None
    assert seen == [datetime.fromtimestamp(TICK_MS / 1000, UTC)]


def test_the_last_run_of_another_schedule_is_retried_and_then_fails_for_good():
    outcome, _ = run(begun("fails"), 2)
    assert (outcome.delay_ms, outcome.ending) == (5000, "failed")
    outcome, _ = run(begun("fails"), 3)
    assert isinstance(outcome, Failure)
    assert (outcome.delay_ms, outcome.job) == (None, "Tidy")
    assert "ValueError: dusty" in outcome.status
    outcome, _ = run(begun(), 4)
    assert isinstance(outcome, Failure)
    assert "no attempts left" in outcome.status


def test_the_last_run_of_another_schedule_undoes_its_sagas():
    outcome, _ = run(begun("fails", saga=SagaMark(["book"])), 3)
    assert isinstance(outcome, Interruption)
    again, undoing = read_metadata(outcome.body).recurrence, read_metadata(outcome.body).saga
    assert again.has_begun
    assert undoing.why == "ValueError: dusty"


class Trip(Job, queue="tidy", every=60, attempts=1, backoff=Constant(5)):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", dict, undo=lambda _: self.unbook())
            raise ValueError("no seat")

    @staticmethod
    def unbook():
        if len(seen) < 4:
            seen.append("unbooked")
            raise OSError("no line")


def test_what_a_run_did_is_undone_in_attempts_of_its_own():
    """As of any other job: there are at least five, though this class allows one for what it does."""
    outcome, _ = run(encode_body(Trip(), BodyMetadata(recurrence=Recurrence(TICK_MS, 4, EVERY_MINUTE))), told=1)
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + 5, UNDO_ATTEMPTS + PERIODIC_SPARE_ATTEMPTS)
    body = outcome.body
    for attempt in range(1, UNDO_ATTEMPTS):
        failed, _ = run(body, attempt, told=UNDO_ATTEMPTS)
        assert (f"[attempt {attempt}/{UNDO_ATTEMPTS} " in failed.status, failed.delay_ms) == (True, 5000)
    outcome, _ = run(body, UNDO_ATTEMPTS, told=UNDO_ATTEMPTS)
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + MINUTE_MS, 1 + PERIODIC_SPARE_ATTEMPTS)
    assert "not undone" not in outcome.status


@pytest.mark.parametrize(("told", "attempt", "allowed"), [(1, 1, 1), (1, 2, 0), (20, 3, 3), (20, 15, 0)])
def test_changed_attempts_of_the_class_let_each_tick_lead_to_the_next(told, attempt, allowed):
    """Server and job have been told of other attempts than the three that the class allows now."""
    outcome, _ = run(periodic_body("fails"), attempt, told=told)
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + MINUTE_MS, 3 + PERIODIC_SPARE_ATTEMPTS)
    assert (f"[attempt {attempt}/{allowed} " if allowed else "no attempts left") in outcome.status


def test_a_job_of_a_periodic_class_enqueued_by_hand_runs_once():
    assert run(encode_body(Tidy()))[0] is None
    assert seen == [None]


@pytest.mark.parametrize("again", [b"5", b"[]", b'{"due_ms":"x"}'])
def test_nonsense_for_a_schedule_harms_nobody_else(again):
    outcome, _ = run(b'{"job":"Tidy","$again":' + again + b"}")
    assert isinstance(outcome, Failure)


class Awaited(Job, name="Tidy", queue="tidy", every=60, attempts=3):
    how: str = ""
    runs: int = 0

    async def run(self, context):
        seen.append(context.scheduled_for)
        if self.how == "retries":
            raise Retry
        if self.how:
            raise ValueError("dusty")


def run_awaited(body, attempt=1):
    codec = JobCodec([Awaited])
    allowed = 3 + PERIODIC_SPARE_ATTEMPTS
    batch = batch_of("tidy:s1:p1:7", bodies=[body], row=new_row(), allowed=allowed, remaining=allowed + 1 - attempt)
    runner = TaskRunner(codec, Saver(), Deadlines(never_kill))
    return asyncio.run(runner.run_awaited(batch, 0, monotonic_ns()))


def test_awaited_jobs_have_ticks_as_well():
    for how, attempt, has_run in (("", 1, True), ("fails", 3, True), ("", 4, False)):
        outcome = run_awaited(
            encode_body(Awaited(how=how), BodyMetadata(recurrence=Recurrence(TICK_MS, 4, EVERY_MINUTE))), attempt
        )
        assert (outcome.attempts, outcome.run_after_ms % MINUTE_MS) == (3 + PERIODIC_SPARE_ATTEMPTS, 0)
        assert outcome.run_after_ms > time() * 1000
        assert len(seen) == has_run
        seen.clear()
    assert isinstance(run_awaited(periodic_body("fails")), Failure)


@pytest.mark.parametrize("body", [b'{"job":"Tidy","runs":"many"', b'{"job":"Tidy","how":7'])
def test_a_body_of_an_older_form_is_run_with_the_defaults_of_the_class(body):
    outcome, _ = run(body + b',"$again":{"due_ms":%d,"run":4,"schedule":"every 60.0"}}' % TICK_MS)
    assert seen == [datetime.fromtimestamp(TICK_MS / 1000, UTC)]
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + MINUTE_MS, 3 + PERIODIC_SPARE_ATTEMPTS)
    assert record_of(outcome) == Tidy(runs=1)
    assert read_metadata(outcome.body).recurrence == Recurrence(
        TICK_MS + MINUTE_MS, 5, EVERY_MINUTE, last=ended("succeeded")
    )


@pytest.mark.parametrize("run_body", [lambda body: run(body)[0], run_awaited])
def test_what_was_unreadable_in_the_body_is_no_reason_of_a_retry(run_body):
    again = b'"$again":{"due_ms":%d,"run":4,"schedule":"every 60.0"}' % TICK_MS
    outcome = run_body(b'{"job":"Tidy","how":"retries","runs":"many",' + again + b"}")
    assert outcome.status.endswith("] Retry: retry\n")


def test_fields_that_fit_and_finished_steps_stay_when_another_field_does_not(caplog):
    again = b'"$again":{"due_ms":%d,"run":4,"schedule":"every 60.0","has_begun":true}' % TICK_MS
    outcome, _ = run(b'{"job":"Tidy","how":7,"runs":41,"newer":[1],"$steps":{"a":1},' + again + b"}")
    assert "Tidy begins with defaults of its class for how" in caplog.text
    assert record_of(outcome) == Tidy(runs=42)
    assert msgspec.json.decode(outcome.body)["newer"] == [1]
    codec, body = JobCodec([Tidy]), b'{"job":"Tidy","how":7,"$steps":{"a":1},' + again + b"}"
    assert msgspec.json.decode(reset_body(codec, "tidy", body))["$steps"] == {"a": 1}


def test_only_scheduled_jobs_of_a_periodic_class_fall_back_to_defaults():
    for body in (
        b'{"job":"Tidy","runs":"many"}',
        b'{"job":"Tidy","runs":"many","$again":{"due_ms":5}}',
        b'{"job":"Nobody","$again":{"due_ms":5,"schedule":"every 60.0"}}',
        b'{"job":"Plain","$steps":5,"$again":{"due_ms":5,"schedule":"every 60.0"}}',
    ):
        outcome, _ = run(body)
        assert outcome is None or isinstance(outcome, Failure)
    assert seen == []


def test_async_periodic_jobs_fall_back_to_defaults_as_well():
    again = b'"$again":{"due_ms":%d,"schedule":"every 60.0"}' % TICK_MS
    assert run_awaited(b'{"job":"Tidy","how":7,' + again + b"}").attempts == 3 + PERIODIC_SPARE_ATTEMPTS
    assert len(seen) == 1
