"""Periodic jobs on a real server: what workers run, and what deployments change."""

import itertools
from datetime import UTC, datetime, timedelta
from time import time
from zoneinfo import ZoneInfo

import msgspec
import pytest

from pinlater import Constant, Job, JobState
from pinlater.testing import LocalServer
from tests.unit.worker.ticking_jobs import Nightly, Plain, Tidy, seen


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


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
