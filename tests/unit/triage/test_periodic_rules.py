"""Rules about periodic jobs."""

import pytest

from pinlater.client.periodic import PAUSED_UNTIL_MS, PeriodicJob
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


def test_a_periodic_job_fails_again_and_again_in_one_run():
    """With many attempts, a run can fail for hours before it has failed."""
    late = job(late=1200, status=FAILURE)
    tried = late._replace(info=late.info._replace(attempts_allowed=36, attempts_remaining=30))
    [finding] = found(periodic_failed, readings(periodic=[tried, late]))
    assert finding.sentence.endswith(
        "failed in all 6 attempts of the run that was due 20 minutes ago with OSError: no disk."
    )
    soon = tried._replace(due_ms=NOW_MS - 60_000)
    paused = tried._replace(info=tried.info._replace(run_after_ms=PAUSED_UNTIL_MS))
    assert found(periodic_failed, readings(periodic=[soon, paused])) == []


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
