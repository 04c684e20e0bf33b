"""Rules about periodic jobs."""

import pytest

from pinlater.client.periodic import PeriodicJob
from pinlater.model.jobs import JobInfo
from pinlater.model.queues import QueueSettings
from pinlater.model.state import JobState
from pinlater.triage.periodic_rules import periodic_failed, periodic_late
from tests.unit.triage.readings import NOW_MS, found, process, readings, worker

FAILURE = "[attempt 2/2 2023-11-14T22:00:00Z web1 42 0.52 s] OSError: no disk\n"


def job(*, failures=0, late=0.0, status="", state=JobState.PENDING):
    due_ms = NOW_MS - int(late * 1000)
    info = JobInfo("email:s1:p1:1", state, 2, 2, status, run_after_ms=due_ms)
    return PeriodicJob("email", "Bills", "cron 0 3 * * * UTC", due_ms, 9, failures, info)


def test_a_periodic_job_failed_in_its_last_run():
    [finding] = found(periodic_failed, readings(periodic=[job(failures=1, status=FAILURE), job()]))
    assert (finding.queue, finding.job, finding.command) == ("email", "Bills", "pinlater run-now email:s1:p1:1")
    assert finding.sentence.endswith("(at 03:00 every day, UTC) failed in its last run with OSError: no disk.")
    assert finding.since_ms == 1_699_999_200_000
    [finding] = found(periodic_failed, readings(periodic=[job(failures=3)]))
    assert finding.sentence.endswith("failed in its last 3 runs.")


SERVED = [worker(process())]


def test_a_periodic_job_is_late():
    [finding] = found(periodic_late, readings(periodic=[job(late=600)], workers=SERVED))
    assert "should have run 10 minutes ago" in finding.sentence


@pytest.mark.parametrize(
    "looked_at",
    [
        readings(periodic=[job(late=60)], workers=SERVED),
        readings(periodic=[job(late=600, state=JobState.IN_PROGRESS)], workers=SERVED),
        readings(periodic=[job(late=600)]),
        readings(periodic=[job(late=600)], workers=SERVED, settings={"email": QueueSettings(is_paused=True)}),
    ],
    ids=["soon enough", "runs", "no worker", "paused"],
)
def test_it_is_not_late(looked_at):
    assert found(periodic_late, looked_at) == []
