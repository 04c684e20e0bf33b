"""Rules about failures."""

import pytest

from pinlater.triage.failure_rules import failing, given_up
from pinlater.triage.readings import Flow
from tests.unit.triage.readings import found, kinds, readings


def flows(recent, before=None):
    return readings(recent={"email": recent}, before={} if before is None else {"email": before})


def flow(succeeded, failed, given_up=0, seconds=300.0):
    return Flow(seconds, succeeded + failed, succeeded + failed, succeeded, failed, given_up)


def test_more_fails_than_before():
    [finding] = found(failing, flows(flow(60, 40, 3), flow(9900, 100, seconds=14_000)))
    assert (finding.severity, finding.queue) == ("warning", "email")
    assert finding.sentence == (
        "40 of 100 attempts in queue email failed within the last 5 minutes, 40 %; in the hours before it was 1 %. "
        "3 jobs failed for good."
    )
    [finding] = found(failing, flows(flow(10, 40)))
    assert finding.severity == "critical"
    assert "before" not in finding.sentence


@pytest.mark.parametrize(
    "looked_at",
    [
        flows(flow(2, 8)),
        flows(flow(900, 40)),
        flows(flow(60, 40), flow(6000, 4000)),
        readings(recent={"deleted": flow(0, 500)}),
        readings(recent={}),
        readings(recent=None),
    ],
    ids=["few", "a small share", "as before", "another queue", "nothing happened", "unknown"],
)
def test_failures_that_are_no_finding(looked_at):
    assert found(failing, looked_at) == []


def test_few_attempts_before_say_nothing():
    assert len(found(failing, flows(flow(60, 40), flow(1, 1)))) == 1


def test_jobs_are_given_up():
    [finding] = found(given_up, flows(flow(9000, 12, 12)))
    assert finding.sentence.startswith("12 jobs of queue email failed for good within the last 5 minutes.")
    assert found(given_up, flows(flow(9000, 12, 9))) == []
    assert found(given_up, flows(flow(9000, 12, 12), flow(9000, 600, 600, seconds=14_400))) == [], "as many as ever"


def test_a_queue_that_fails_is_one_finding():
    assert kinds(flows(flow(10, 40, 40))) == ["failing"]
