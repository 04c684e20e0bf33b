"""What is asked of a service, and how often."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from pinlater.client import store_time
from pinlater.client.periodic import PeriodicJobs
from pinlater.errors import ProtocolError, QueueNotFound
from pinlater.model.jobs import JobInfo, Page
from pinlater.model.keys import JobKey
from pinlater.model.messages import CancelledJobs
from pinlater.model.queues import QueueSettings
from pinlater.model.state import JobState
from pinlater.model.statistics import Spread, Statistics, StatisticsKind, bucket_of
from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport
from pinlater.triage import collect
from pinlater.triage.collect import MOST_COUNTED, Collector
from pinlater.triage.readings import Depth, FloodSample, Flow, KeyHold, ServerReading
from pinlater.triage.waiting_samples import FEW_QUEUES, MOST_SAMPLED
from tests.unit.triage.readings import NOW_MS


class FakeVerbs:
    """A service with some queues, each with the same number of due jobs."""

    def __init__(self, queues, due=200, *, waits_ms=60_000, waiting_for_key=0, keys=("a",)):
        self.queues, self.due, self.waits_ms, self.by_key, self.keys = queues, due, waits_ms, waiting_for_key, keys
        self.asked = Counter()
        self.deleted = set()
        self.is_old = False
        self.statistics_of = []
        self.now_ms = NOW_MS
        self.classes, self.body, self.bodies = [], b'{"job": "Mail"}', {}

    async def queue_settings(self):
        self.asked["queue_settings"] += 1
        return {queue: QueueSettings() for queue in self.queues}

    async def cancelled_jobs(self, since_ms):
        self.asked["cancelled_jobs"] += 1
        assert since_ms > self.now_ms
        if self.is_old:
            raise ProtocolError("unknown call")
        return CancelledJobs([], self.now_ms)

    async def oldest_due(self, queues):
        self.asked["oldest_due"] += 1
        return {queue: NOW_MS - self.waits_ms - place for place, queue in enumerate(self.queues)} if self.due else {}

    async def workers(self):
        if self.is_old:
            raise ProtocolError("unknown call")
        return []

    async def statistics(self, kind, *, resolution, since_ms, until_ms=None, queues, name=None):
        self.asked[f"statistics {kind.name} {resolution}"] += 1
        if self.is_old:
            raise ProtocolError("unknown call")
        if kind is StatisticsKind.CLASS:
            until_ms = NOW_MS + 1 if until_ms is None else until_ms
            of_queues = [one for one in self.classes if one.queue in queues and name in {None, one.name}]
            return [one for one in of_queues if since_ms <= one.start_ms < until_ms]
        return [one for one in self.statistics_of if resolution == one[0] for one in one[1]]

    async def failure_groups(self, queues, *, limit):
        self.asked["failure_groups"] += 1
        if self.is_old:
            raise ProtocolError("unknown call")
        return []

    async def periodic_jobs(self, queues):
        self.asked["periodic_jobs"] += 1
        return PeriodicJobs([], {"deep"} if self.is_old else set())

    async def count(self, queue, state, *, future=False, waiting_for_key=False):
        self.asked["count"] += 1
        if queue in self.deleted:
            raise QueueNotFound(queue)
        if waiting_for_key:
            return self.by_key
        return self.due if state is JobState.PENDING else 0

    async def lookup(self, descriptors, *, include_body, max_body_bytes):
        self.asked["lookup"] += 1
        return {name: JobInfo(name, JobState.PENDING, 2, 2, body=self.body[:max_body_bytes]) for name in descriptors}

    async def scan(self, queue, state, *, future, limit):
        self.asked["scan"] += 1
        keys = self.keys * (limit // len(self.keys))
        jobs = [
            JobInfo(f"{queue}:s1:p1:{place}", state, 2, 2, key=JobKey(key), waits_for_key=future)
            for place, key in enumerate(keys)
        ]
        return Page(jobs, None)


def collected(client, queues=(), server=None):
    return asyncio.run(Collector(client).collect(queues, server))


class SlowVerbs(FakeVerbs):
    """A service whose calls for settings take so many seconds, one after the other."""

    def __init__(self, seconds):
        super().__init__(["q"])
        self.now, self._seconds = 0.0, iter(seconds)

    async def queue_settings(self):
        self.now += next(self._seconds)
        return await super().queue_settings()


@pytest.mark.parametrize(("seconds", "told"), [((0.01,), 0.01), ((0.9, 0.01), 0.01), ((0.9, 0.8), 0.8)])
def test_a_call_that_took_long_is_timed_once_more(monkeypatch, seconds, told):
    client = SlowVerbs(seconds)
    monkeypatch.setattr(collect, "time", SimpleNamespace(monotonic=lambda: client.now))
    assert collected(client).answer_seconds == pytest.approx(told)
    assert client.asked["queue_settings"] == len(seconds)


def test_many_deep_queues_cost_few_calls():
    client = FakeVerbs([f"q{number}" for number in range(500)])
    looked_at = collected(client)
    assert len(looked_at.settings) == len(looked_at.oldest_due_ms) == 500
    assert client.asked["oldest_due"] == client.asked["periodic_jobs"] == 1
    assert client.asked["queue_settings"] <= 2  # once more where the machine stood still
    assert client.asked["count"] == 2 * MOST_COUNTED + 1  # and once to see whether all shards answer
    assert client.asked["scan"] == 2 * MOST_SAMPLED
    assert set(looked_at.depths) == {f"q{number}" for number in range(490, 500)}, "those that wait for longest"
    assert looked_at.depths["q499"] == Depth(200, 0)


def test_idle_queues_are_not_counted():
    client = FakeVerbs([f"q{number}" for number in range(500)], due=0)
    collected(client)
    assert (client.asked["count"], client.asked["scan"]) == (1, 0), "one, to see whether all shards answer"
    collected(client, server=ServerReading())
    assert (client.asked["count"], client.asked["scan"]) == (1, 0), "which metrics tell"


def test_only_some_queues_are_looked_at():
    looked_at = collected(FakeVerbs(["email", "sms"]), ["sms", "deleted"])
    assert set(looked_at.settings) == set(looked_at.depths) == {"sms"}


def test_without_any_of_the_queues_those_of_others_are_not_searched():
    client = FakeVerbs(["email"])
    assert collected(client, ["deleted"]).settings == {}
    assert client.asked["periodic_jobs"] == 0


class KeysAreHeld(FakeVerbs):
    """A service whose worker, with a clock ten seconds ahead, runs jobs that others of their key wait for."""

    async def workers(self):
        jobs = [
            RunningJob(f"{queue}:s1:p1:{number}", NOW_MS + 10_000 - number * 1000)
            for queue in (*self.queues, "another")
            for number in range(40, 100)
        ]
        process = WorkerProcess(8, queues=self.queues, jobs=jobs)
        return [WorkerReport("a", "web1", processes=[process], sent_ms=NOW_MS + 10_000, reported_ms=NOW_MS)]

    async def lookup(self, descriptors, **_):
        self.asked["lookup"] += 1
        self.asked["looked up"] += len(descriptors)
        return {
            name: JobInfo(
                name,
                JobState.IN_PROGRESS,
                2,
                2,
                key=None if name.endswith("99") else JobKey(name[-2:]),
                body=self.bodies.get(name, self.body),
            )
            for name in descriptors
        }

    async def scan(self, queue, state, *, key=None, limit, future=False):
        self.asked["scan"] += 1
        waiting = [JobInfo("x", state, 2, 2, waits_for_key=place < 3) for place in range(4)]
        return Page(waiting if key != "98" else waiting[3:], None)


def test_jobs_that_have_long_held_up_others_of_their_key_are_looked_up():
    client = KeysAreHeld(["email"], due=0, waiting_for_key=3)
    assert collected(client).holds == {"email": KeyHold("email:s1:p1:97", "97", NOW_MS - 97_000, 3, "Mail")}
    assert (client.asked["lookup"], client.asked["looked up"], client.asked["scan"]) == (1, 20, 2)
    idle = KeysAreHeld(["email"], due=0)
    assert collected(idle).holds == {}
    assert idle.asked["lookup"] == 0, "no job waits for its key"


@pytest.mark.parametrize(("runs", "usual"), [(2, None), (50, pytest.approx(1800, rel=0.25))])
def test_how_long_such_a_job_usually_runs_is_asked_once(runs, usual):
    client = KeysAreHeld(["email"], due=0, waiting_for_key=3)
    run = Spread({bucket_of(1_800_000): runs})
    client.classes = [
        Statistics("email", "Mail", NOW_MS - 6 * 86_400_000, run=run),
        Statistics("email", "Other", NOW_MS, run=Spread({bucket_of(1000): 1000})),
    ]

    async def twice():
        collector = Collector(client)
        return [(await collector.collect()).holds["email"].usual_seconds for _ in range(2)]

    assert asyncio.run(twice()) == [usual, usual]
    assert client.asked["statistics CLASS 3600"] == 1


def test_a_job_that_runs_longer_than_usual_goes_before_one_that_runs_longer_but_as_usual():
    client = KeysAreHeld(["email"], due=0, waiting_for_key=3)
    client.bodies = {"email:s1:p1:97": b'{"job": "Report"}'}
    client.classes = [
        Statistics("email", job, NOW_MS, run=Spread({bucket_of(seconds * 1000): 9}))
        for job, seconds in (("Report", 1800), ("Mail", 20))
    ]
    hold = collected(client).holds["email"]
    assert (hold.descriptor, hold.job, hold.is_usual(NOW_MS)) == ("email:s1:p1:96", "Mail", False)
    client.classes[1] = Statistics("email", "Mail", NOW_MS, run=client.classes[0].run)
    assert collected(client).holds["email"].descriptor == "email:s1:p1:97"


def test_keys_are_counted_where_that_is_cheap_or_known():
    few = FakeVerbs(["email"], due=0, waiting_for_key=5000, keys=("a", "a", "a", "b"))
    sample = FloodSample("a", 300, 400, 5000)
    assert collected(few).keys == {"email": sample}
    many = FakeVerbs([f"q{number}" for number in range(FEW_QUEUES + 1)], due=0, waiting_for_key=5000)
    assert collected(many).keys == {}
    told = ServerReading(waiting_for_key={"q1": 700, "deleted": 9000})
    assert collected(many, server=told).keys == {"q1": FloodSample("a", 400, 400, 700)}


def test_keys_are_counted_at_once_although_the_metrics_do_not_tell_yet():
    few = FakeVerbs(["email"], due=0, waiting_for_key=300)
    assert collected(few, server=ServerReading()).keys == {"email": FloodSample("a", 400, 400, 300)}


def test_of_many_queues_those_are_counted_to_which_many_jobs_came():
    many = FakeVerbs([f"q{number}" for number in range(500)], due=0, waiting_for_key=300)
    now = NOW_MS - NOW_MS % 60_000
    many.statistics_of = [(60, [Statistics(f"q{number}", "", now, 400 - number) for number in range(500)])]
    assert set(collected(many, server=ServerReading()).keys) == {f"q{number}" for number in range(MOST_SAMPLED)}
    assert many.asked["count"] == MOST_SAMPLED


def test_the_classes_of_waiting_jobs_are_compared_with_the_usual_ones():
    client = FakeVerbs(["email"])
    hour = NOW_MS - NOW_MS % 3_600_000
    client.classes = [
        Statistics("email", "Mail", hour - 3_600_000, succeeded=10),
        Statistics("email", "Report", hour - 7_200_000, succeeded=29, failed=1),
        Statistics("email", "Mail", hour, succeeded=1_000_000),
    ]

    async def twice():
        collector = Collector(client)
        return [(await collector.collect()).classes for _ in range(2)]

    assert asyncio.run(twice()) == [{"email": FloodSample("Mail", 400, 400, 200, 0.25)}] * 2, "of full hours"
    assert client.asked["statistics CLASS 3600"] == 1


def test_a_queue_of_one_class_has_no_usual_shares():
    client = FakeVerbs(["email"])
    client.classes = [Statistics("email", "Mail", NOW_MS - NOW_MS % 3_600_000 - 3_600_000, succeeded=10)]
    assert collected(client).classes == {}
    assert client.asked["lookup"] == 0


def test_a_queue_is_deleted_in_the_meantime():
    client = FakeVerbs(["email", "sms"])
    client.deleted = {"email"}
    assert set(collected(client).depths) == {"sms"}


def test_an_older_server_cannot_tell_everything():
    client = FakeVerbs(["email"])
    client.is_old = True
    looked_at = collected(client)
    assert looked_at.workers is None
    assert looked_at.recent is None
    assert looked_at.not_told == ["workers", "periodic jobs of deep queues", "failure groups", "statistics"]


def test_the_last_minutes_and_the_hours_before():
    minute_ms = NOW_MS - NOW_MS % 60_000
    client = FakeVerbs(["email"], due=0)
    minutes = [
        Statistics("email", "", minute_ms - 240_000, 10, 10, 8, 2, 1),
        Statistics("email", "", minute_ms, 5, 5, 3, 2, 0),
    ]
    hours = [Statistics("email", "", minute_ms - 3 * 3_600_000, 100, 100, 98, 2, 1)]
    hours.append(Statistics("email", "", minute_ms - 600_000, 20, 20, 16, 4, 1))
    client.statistics_of = [(60, minutes), (3600, hours)]
    looked_at = collected(client)
    assert looked_at.recent == {"email": Flow(300, 15, 15, 11, 4, 1)}
    assert looked_at.last_minute == {"email": Flow(60, 5, 5, 3, 2, 0)}
    assert looked_at.before == {"email": Flow(4 * 3600 - 300, 105, 105, 103, 2, 1)}


def test_minutes_that_are_not_in_the_cached_hours_are_not_taken_off_them():
    client = FakeVerbs(["email"], due=0)
    minute_ms = NOW_MS - NOW_MS % 60_000
    hour = Statistics("email", "", minute_ms - 3 * 3_600_000, 100, 100, 90, 10, 0)
    client.statistics_of = [(60, []), (3600, [hour])]
    collector = Collector(client)
    before = asyncio.run(collector.collect()).before
    client.now_ms += 240_000
    client.statistics_of = [(60, [Statistics("email", "", minute_ms + 180_000, 80, 80, 0, 80, 0)])]
    readings = asyncio.run(collector.collect())
    assert readings.recent["email"].failed == 80
    assert readings.before == before == {"email": Flow(4 * 3600, 100, 100, 90, 10, 0)}


def test_the_clock_of_the_store_counts_and_not_that_of_this_machine(monkeypatch):
    monkeypatch.setattr(store_time, "time", SimpleNamespace(time=lambda: NOW_MS / 1000 + 300))
    client = FakeVerbs(["email"])
    collector = Collector(client)
    assert asyncio.run(collector.collect()).at_ms == NOW_MS
    client.is_old = True
    assert asyncio.run(collector.collect()).at_ms == NOW_MS + 300_000


def test_hours_are_not_asked_for_each_time():
    client = FakeVerbs(["email"])

    async def main():
        collector = Collector(client)
        for queues in ((), (), ["email"]):
            await collector.collect(queues)

    asyncio.run(main())
    assert client.asked["statistics QUEUE 60"] == 3
    assert client.asked["statistics QUEUE 3600"] == 2
