"""Periodic jobs: enqueued once, run at each tick, never ended by a failure."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic_ns, time
from zoneinfo import ZoneInfo

import msgspec
import pytest

from pinlater import Constant, Discard, Job, JobInterrupted, JobState
from pinlater.errors import (
    ConfigError,
    EnqueueRejected,
    QueueNotFound,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
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
from pinlater.protocol.messages import (
    PinLaterDequeueResponse,
    PinLaterEnqueueResponse,
    PinLaterJobInfo,
    PinLaterScanJobsResponse,
)
from pinlater.protocol.operations import Calls
from pinlater.testing import LocalServer
from pinlater.worker.claim_table.counters import TICK_FAILED
from pinlater.worker.processes import periodic_scheduler as scheduler_module
from pinlater.worker.processes.periodic_scheduler import FirstPeriodicJobs, PeriodicScheduler
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.running.tick import reset_body
from pinlater.worker.session.outcome import Failure, Interruption
from pinlater.worker.session.server_clock import ServerClock
from tests.support.savers import InBody
from tests.unit.worker.fakes import FakePipeline, batch_of, new_row

MINUTE_MS = 60_000
TICK_MS = 1_700_000_040_000
EVERY_MINUTE = "every 60.0"


class Tidy(Job, queue="tidy", every=60, attempts=3, backoff=Constant(5), priority=2):
    how: str = ""
    runs: int = 0

    def run(self, context):
        seen.append(context.scheduled_for)
        self.runs += 1
        if self.how == "saves and fails":
            context.checkpoint(flush=True)
            self.runs += 10
        if "fails" in self.how:
            raise ValueError("dusty")
        if self.how == "discards":
            raise Discard("not today")
        if self.how == "is interrupted":
            raise JobInterrupted
        if self.how == "says when":
            context.reschedule(at=TICK_MS / 1000 + 7)
        if self.how == "is unreadable":
            self.how = object()


class Nightly(Job, queue="tidy", cron="30 2 * * *", timezone="Europe/Berlin"):
    def run(self, context):
        seen.append(context.scheduled_for)


class Plain(Job, queue="tidy"):
    pass


class Elsewhere(Job, every=60):
    pass


seen = []


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


class Saver(InBody):
    is_draining = False

    def save(self, batch, position, encode, patience_seconds):
        encode()
        return True


def periodic_body(how="", schedule=EVERY_MINUTE, **kept):
    return encode_body(Tidy(how=how), BodyMetadata(recurrence=Recurrence(TICK_MS, 4, schedule), **kept))


def run(body, attempt=1, now_ms=TICK_MS + 5, told=3):
    codec = JobCodec([Tidy, Plain, Trip])
    allowed = told + PERIODIC_SPARE_ATTEMPTS
    batch = batch_of("tidy:s1:p1:7", bodies=[body], row=new_row(), allowed=allowed, remaining=allowed + 1 - attempt)
    runner = Runner(codec, codec.names, Saver(), 30.0, now=lambda: now_ms / 1000)
    return runner.run(batch, 0, monotonic_ns()), batch


def ended(result, attempts=1):
    return LastRun(TICK_MS, TICK_MS + 5, TICK_MS + 5, result, attempts)


def record_of(outcome):
    return JobCodec([Tidy]).decode("tidy", outcome.body)


# Runs


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

    async def run(self, context):
        seen.append(context.scheduled_for)
        if self.how:
            raise ValueError("dusty")


def run_awaited(body, attempt=1):
    codec = JobCodec([Awaited])
    allowed = 3 + PERIODIC_SPARE_ATTEMPTS
    batch = batch_of("tidy:s1:p1:7", bodies=[body], row=new_row(), allowed=allowed, remaining=allowed + 1 - attempt)
    runner = TaskRunner(codec, codec.names, Saver(), 30.0, Deadlines(never_kill))
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


# Enqueueing


def periodic_jobs(*kinds, queues=("tidy",), now_ms=TICK_MS):
    return FirstPeriodicJobs(kinds, queues).by_queue(now_ms)


def test_each_periodic_class_of_the_queues_is_enqueued_for_its_next_tick():
    found = periodic_jobs(Tidy, Plain, Nightly, Elsewhere)
    assert list(found) == ["tidy"]
    tidy, nightly = found["tidy"]
    assert (tidy.priority, tidy.numAttemptsAllowed, tidy.uniqueKey) == (
        2,
        3 + PERIODIC_SPARE_ATTEMPTS,
        "Tidy every 60.0",
    )
    assert tidy.runAfterTimestampMillis == TICK_MS + MINUTE_MS
    assert read_metadata(tidy.body) == BodyMetadata(recurrence=Recurrence(TICK_MS + MINUTE_MS, 0, EVERY_MINUTE))
    assert nightly.uniqueKey == "Nightly cron 30 2 * * * Europe/Berlin"


def test_a_class_that_cannot_be_made_is_a_matter_of_configuration():
    class Stubborn(Job, queue="tidy", every=60):
        def __post_init__(self):
            raise ValueError("no")

    with pytest.raises(ConfigError, match="Stubborn cannot be created without arguments: no"):
        FirstPeriodicJobs([Stubborn], ["tidy"])


class Shards(FakePipeline):
    """Leads to a server whose shards have ``jobs``; a new one goes to a shard where its unique key is free."""

    def __init__(self):
        super().__init__()
        self.jobs = []
        self.knows_keys = True

    def call(self, call):
        answer = super().call(call)
        if getattr(self, "answers", None) or answer is not None:
            return answer
        answers = {"scanJobs": self._scan, "lookupJobs": self._look_up, "enqueueJobs": self._enqueue}
        return call.convert(answers[call.method](call.arguments.request)) if call.method in answers else None

    def _scan(self, request):
        found = [job for job in self.jobs if job.jobState == request.jobState]
        return PinLaterScanJobsResponse([job for job in found if job.uniqueKey == request.key or not self.knows_keys])

    def _look_up(self, request):
        return {job.jobDescriptor: job for job in self.jobs if job.jobDescriptor in request.jobDescriptors}

    def _enqueue(self, request):
        new = [job_on_shard(f"tidy:s2:p2:{len(self.jobs) + at}", job.uniqueKey) for at, job in enumerate(request.jobs)]
        self.jobs += new
        return PinLaterEnqueueResponse([job.jobDescriptor for job in new])


def job_on_shard(descriptor="tidy:s1:p2:9", unique="Tidy every 60.0", state=JobState.PENDING, created_ms=0):
    info = PinLaterJobInfo(descriptor, int(state), 3, 3, "", created_ms)
    info.uniqueKey = unique
    return info


@pytest.fixture
def pipeline():
    return Shards()


@pytest.fixture
def minutes(monkeypatch):
    """Pass, one at each call."""

    def let_one_pass():
        monkeypatch.setattr(scheduler_module.time, "monotonic", partial(float, next(now)))

    now = itertools.count(1000, 61)
    return let_one_pass


def scheduler_of(pipeline, *kinds):
    clock = ServerClock()
    clock.update(int(time() * 1000), clock.sent())
    return PeriodicScheduler(pipeline, Calls("worker:me", is_plain=True), FirstPeriodicJobs(kinds, ["tidy"]), clock)


def enqueues(pipeline):
    return pipeline.methods.count("enqueueJobs")


def test_periodic_jobs_are_enqueued_at_the_start_and_regularly_as_far_as_they_are_missing(pipeline, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(scheduler_module.time, "monotonic", lambda: now)
    scheduler = scheduler_of(pipeline, Tidy)
    for seconds, calls in ((0, 1), (59, 1), (2, 2), (1, 2)):
        now += seconds
        scheduler.enqueue_when_due()
        assert enqueues(pipeline) == calls
        pipeline.jobs.clear()
    assert (pipeline.last.queueName, len(pipeline.last.jobs)) == ("tidy", 1)
    scheduler.reset()
    scheduler.enqueue_when_due()
    assert enqueues(pipeline) == 3


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.IN_PROGRESS])
def test_a_job_that_is_on_another_shard_than_its_key_selects_now_is_not_enqueued_again(pipeline, minutes, state):
    pipeline.jobs = [job_on_shard(state=state)]
    scheduler = scheduler_of(pipeline, Tidy, Nightly)
    for _ in range(4):
        minutes()
        scheduler.enqueue_when_due()
    assert [job.uniqueKey.split()[0] for job in pipeline.jobs] == ["Tidy", "Nightly"]
    assert pipeline.methods[-2:] == ["lookupJobs"] * 2, "one call a minute asks their shards, for both"
    assert pipeline.methods.count("lookupJobs") == 3


def test_a_job_whose_run_ends_while_it_is_looked_for_is_found(pipeline):
    pipeline.jobs = [job_on_shard(state=JobState.IN_PROGRESS)]
    scan = pipeline._scan

    def end_before_running_jobs_are_read(request):
        if request.jobState == JobState.IN_PROGRESS:
            pipeline.jobs[0].jobState = int(JobState.PENDING)
        return scan(request)

    pipeline._scan = end_before_running_jobs_are_read
    scheduler_of(pipeline, Tidy).enqueue_when_due()
    assert enqueues(pipeline) == 0


def test_a_job_that_has_ended_is_enqueued_again_within_a_minute(pipeline, minutes):
    pipeline.jobs = [job_on_shard()]
    scheduler = scheduler_of(pipeline, Tidy)
    for _ in range(2):
        minutes()
        scheduler.enqueue_when_due()
    pipeline.jobs = [job_on_shard(unique=None, state=JobState.FAILED)]
    minutes()
    scheduler.enqueue_when_due()
    assert enqueues(pipeline) == 1


RETRIED = job_on_shard("tidy:s1:p2:3", unique=None)
OLDER = job_on_shard("tidy:s3:p2:1", created_ms=5)
YOUNGER = job_on_shard("tidy:s2:p2:1", created_ms=6)


@pytest.mark.parametrize(
    ("known", "ran", "ended"),
    [(OLDER, RETRIED, RETRIED), (YOUNGER, OLDER, OLDER), (OLDER, YOUNGER, OLDER)],
    ids=["retried by hand", "the known one was created later", "the known one was created earlier"],
)
def test_of_two_jobs_of_a_class_one_is_ended_after_its_run(pipeline, minutes, known, ran, ended):
    pipeline.jobs = [known]
    scheduler = scheduler_of(pipeline, Tidy)
    minutes()
    scheduler.enqueue_when_due()
    pipeline.jobs.append(ran)
    for job in (ran, known):
        assert "cancelJobs" not in pipeline.methods
        scheduler.record_run("tidy", job.jobDescriptor, periodic_body())
        scheduler.enqueue_when_due()
        if job is ended:
            break
    assert pipeline.methods[-1] == "cancelJobs"
    assert pipeline.last.jobDescriptors == [ended.jobDescriptor]
    pipeline.jobs.remove(ended)
    minutes()
    scheduler.enqueue_when_due()
    assert pipeline.methods[-1] == "lookupJobs", "the other one is known"


def test_a_second_job_that_runs_again_already_is_ended_after_that(pipeline, minutes):
    second = job_on_shard("tidy:s1:p2:3", unique=None)
    pipeline.jobs = [job_on_shard(), second]
    scheduler = scheduler_of(pipeline, Tidy)
    minutes()
    scheduler.enqueue_when_due()
    for state in (JobState.IN_PROGRESS, JobState.PENDING):
        assert "cancelJobs" not in pipeline.methods
        second.jobState = int(state)
        scheduler.record_run("tidy", second.jobDescriptor, periodic_body())
        scheduler.enqueue_when_due()
    assert pipeline.last.jobDescriptors == [second.jobDescriptor]


def test_the_job_that_is_known_may_run_and_one_that_took_its_place_too(pipeline, minutes):
    pipeline.jobs = [job_on_shard()]
    scheduler = scheduler_of(pipeline, Tidy)
    minutes()
    scheduler.enqueue_when_due()
    before = len(pipeline.methods)
    scheduler.record_run("tidy", pipeline.jobs[0].jobDescriptor, periodic_body())
    scheduler.record_run("tidy", "tidy:s1:p2:3", encode_body(Plain(), BodyMetadata(recurrence=Recurrence(TICK_MS))))
    scheduler.enqueue_when_due()
    assert len(pipeline.methods) == before, "there is nothing to ask"
    pipeline.jobs = [job_on_shard("tidy:s2:p2:1")]
    scheduler.record_run("tidy", pipeline.jobs[0].jobDescriptor, periodic_body())
    scheduler.enqueue_when_due()
    assert {"cancelJobs", "enqueueJobs"}.isdisjoint(pipeline.methods)


@pytest.mark.parametrize(
    ("error", "times"), [(ShardConnectionFailed("it does not answer"), 0), (UnknownError("there is no shard '1'"), 1)]
)
def test_another_is_enqueued_once_its_shard_is_removed_and_not_while_that_is_away(pipeline, minutes, error, times):
    pipeline.jobs = [job_on_shard()]
    scheduler = scheduler_of(pipeline, Tidy)
    minutes()
    scheduler.enqueue_when_due()
    pipeline.jobs.clear()  # a scan leaves out such a shard
    pipeline.answers = [error]
    minutes()
    scheduler.enqueue_when_due()
    assert enqueues(pipeline) == times


def test_a_server_that_finds_no_jobs_by_key_is_left_to_find_duplicates(pipeline):
    pipeline.jobs, pipeline.knows_keys = [job_on_shard(unique=None)], False
    scheduler_of(pipeline, Tidy).enqueue_when_due()
    assert enqueues(pipeline) == 1


def test_the_jobs_of_a_missing_queue_are_enqueued(pipeline):
    pipeline.answers = [QueueNotFound("tidy")]
    scheduler_of(pipeline, Tidy).enqueue_when_due()
    assert enqueues(pipeline) == 1


def test_without_periodic_classes_nothing_is_enqueued(pipeline):
    scheduler = scheduler_of(pipeline, Plain)
    scheduler.reset()
    scheduler.enqueue_when_due()
    assert pipeline.methods == []


def test_a_refusal_stops_nobody_but_a_lost_call_is_made_again(pipeline):
    scheduler = scheduler_of(pipeline, Tidy)
    pipeline.answers = [ServerUnavailable("gone"), EnqueueRejected("no"), None]
    with pytest.raises(ServerUnavailable):
        scheduler.enqueue_when_due()
    scheduler.enqueue_when_due()
    scheduler.enqueue_when_due()
    assert len(pipeline.methods) == 2


# On a real server


@pytest.fixture
def server(tmp_path):
    with LocalServer(tmp_path) as server:
        server.advance(62 - server.now.second)  # two seconds after a tick: none comes by itself within a test
        yield server


def endings(outcomes):
    return [(str(outcome.ending), outcome.attempt, outcome.attempts_allowed) for outcome in outcomes]


def test_every_tick_has_one_run(server):
    assert server.run_worker(Tidy) == []
    for _ in range(5):
        server.advance(60)
        assert endings(server.run_worker(Tidy)) == [("rescheduled", 1, 3)]
        assert server.run_worker(Tidy) == []
    assert [later - earlier for earlier, later in itertools.pairwise(seen)] == [timedelta(minutes=1)] * 4
    assert all(moment.second == 0 for moment in seen)
    server.advance(3600)
    assert endings(server.run_worker(Tidy)) == [("rescheduled", 1, 3)]
    assert server.client().count("tidy", JobState.PENDING, future=True) == 1


class Fails(Job, queue="tidy", every=60, attempts=2, backoff=Constant(5)):
    def run(self, context):
        raise ValueError(f"dusty at {context.scheduled_for:%S}")


def test_a_tick_that_fails_is_followed_by_the_next(server):
    server.run_worker(Fails)
    for _ in range(4):
        server.advance(60)
        [first] = server.run_worker(Fails)
        server.advance(5)
        [second] = server.run_worker(Fails)
        assert endings([first, second]) == [("failed", 1, 2), ("failed", 2, 2)]
        assert (first.runs_again, second.runs_again) == (True, False)
    [job] = server.client().scan("tidy", JobState.PENDING, future=True).jobs
    assert job.status.count("[attempt 2/2") == 4
    assert "ValueError: dusty at 00" in job.status


def test_a_deployment_with_another_schedule_replaces_the_job(server):
    server.run_worker(Tidy)

    class Tidier(Job, name="Tidy", queue="tidy", every=30):
        runs: int = 0

        def run(self, context):
            seen.append(context.scheduled_for)

    server.run_worker(Tidier)
    assert server.client().count("tidy", JobState.PENDING, future=True) == 2
    server.advance(60)
    assert sorted(str(outcome.ending) for outcome in server.run_worker(Tidier)) == ["rescheduled", "succeeded"]
    assert len(seen) == 1
    assert server.client().count("tidy", JobState.PENDING, future=True) == 1


def test_ticks_are_told_on_the_clock_of_the_class(server):
    server.run_worker(Nightly)
    server.advance(25 * 3600)
    server.run_worker(Nightly)
    [tick] = seen
    assert tick.tzinfo == ZoneInfo("Europe/Berlin")
    assert tick.hour in {2, 3}  # three on the day that has no half past two
    assert tick > datetime.fromtimestamp(time(), UTC)
    assert server.now > tick


def test_the_record_goes_from_tick_to_tick(server):
    server.run_worker(Tidy)
    for run_number in (1, 2, 3):
        server.advance(60)
        [outcome] = server.run_worker(Tidy)
        assert msgspec.json.decode(outcome.body)["runs"] == run_number


# Deployments


def test_one_whose_class_has_moved_to_another_queue_ends_without_a_run(server):
    server.run_worker(Tidy)

    class Moved(Job, name="Tidy", queue="tidy_moved", every=60):
        def run(self, context):
            seen.append(context.scheduled_for)

    server.run_worker(Moved)
    for _ in range(3):
        server.advance(60)
        server.run_worker(Moved, Plain)
        server.run_worker(Moved, Plain, queues=["tidy"])
    assert len(seen) == len(set(seen)) == 3
    client = server.client()
    assert (client.count("tidy", JobState.PENDING, future=True), client.count("tidy", JobState.SUCCEEDED)) == (0, 1)


@pytest.mark.parametrize("body", [b'{"job":"Tidy","runs":"many"', b'{"job":"Tidy","how":7'])
def test_a_body_of_an_older_form_is_run_with_the_defaults_of_the_class(body):
    outcome, _ = run(body + b',"$again":{"due_ms":%d,"run":4,"schedule":"every 60.0"}}' % TICK_MS)
    assert seen == [datetime.fromtimestamp(TICK_MS / 1000, UTC)]
    assert (outcome.run_after_ms, outcome.attempts) == (TICK_MS + MINUTE_MS, 3 + PERIODIC_SPARE_ATTEMPTS)
    assert record_of(outcome) == Tidy(runs=1)
    assert read_metadata(outcome.body).recurrence == Recurrence(
        TICK_MS + MINUTE_MS, 5, EVERY_MINUTE, last=ended("succeeded")
    )


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


def test_the_server_s_clock_says_when_the_first_run_is(pipeline):
    """This machine may be minutes ahead, and would leave out as many ticks."""
    scheduler = PeriodicScheduler(
        pipeline, Calls("worker:me", is_plain=True), FirstPeriodicJobs([Tidy], ["tidy"]), ServerClock()
    )
    pipeline.answers = [PinLaterDequeueResponse(serverTimestampMillis=TICK_MS + 5)]
    scheduler.enqueue_when_due()
    assert (pipeline.methods[0], enqueues(pipeline)) == ("dequeueJobs", 1)
    assert pipeline.sent[0][1].request.dryRun
    assert pipeline.last.jobs[0].runAfterTimestampMillis == TICK_MS + MINUTE_MS
    pipeline.jobs.clear()
    scheduler.reset()
    scheduler.enqueue_when_due()
    assert (pipeline.methods.count("dequeueJobs"), enqueues(pipeline)) == (1, 2)


@pytest.mark.parametrize("answer", [PinLaterDequeueResponse(), EnqueueRejected("not now")])
def test_where_a_server_tells_no_time_this_machine_does(pipeline, answer):
    scheduler = PeriodicScheduler(
        pipeline, Calls("worker:me", is_plain=True), FirstPeriodicJobs([Tidy], ["tidy"]), ServerClock()
    )
    pipeline.answers = [answer]
    scheduler.enqueue_when_due()
    assert 0 < pipeline.last.jobs[0].runAfterTimestampMillis - time() * 1000 <= MINUTE_MS
