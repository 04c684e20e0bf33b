"""The first jobs of periodic classes: enqueued once for all workers, and again when they are missing."""

import itertools
from functools import partial
from time import time

import pytest

from pinlater import Job, JobState
from pinlater.client.server_clock import ServerClock
from pinlater.errors import (
    ConfigError,
    EnqueueRejected,
    QueueNotFound,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, BodyMetadata, Recurrence, read_metadata
from pinlater.protocol.messages import (
    PinLaterDequeueResponse,
    PinLaterEnqueueResponse,
    PinLaterJobInfo,
    PinLaterScanJobsResponse,
)
from pinlater.protocol.operations import Calls
from pinlater.worker.processes import periodic_scheduler as scheduler_module
from pinlater.worker.processes.periodic_scheduler import FirstPeriodicJobs, PeriodicScheduler
from tests.unit.worker.fakes import FakePipeline
from tests.unit.worker.ticking_jobs import (
    EVERY_MINUTE,
    MINUTE_MS,
    TICK_MS,
    Elsewhere,
    Nightly,
    Plain,
    Tidy,
    periodic_body,
)


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
