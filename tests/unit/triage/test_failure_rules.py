"""Rules about failures."""

import pytest

from pinlater.model.failure_groups import FailureGroup
from pinlater.triage.failure_rules import failing, given_up, poison, retrying
from pinlater.triage.readings import Flow
from tests.unit.triage.readings import NOW_MS, found, kinds, readings


def flows(recent, before=None):
    return readings(recent={"email": recent}, before={} if before is None else {"email": before})


def flow(succeeded, failed, given_up=0, seconds=300.0):
    return Flow(seconds, succeeded + failed, succeeded + failed, succeeded, failed, given_up)


def test_more_fails_than_before():
    [finding] = found(failing, flows(flow(60, 40, 3), flow(9900, 100, seconds=14_000)))
    assert (finding.severity, finding.queue) == ("warning", "email")
    assert finding.command == "pinlater failing email", "which shows those that will be tried again, too"
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
    [finding] = found(failing, flows(flow(60, 40), flow(1, 1)))
    assert "before" not in finding.sentence


def test_jobs_are_given_up():
    [finding] = found(given_up, flows(flow(9000, 12, 12)))
    assert finding.sentence.startswith("12 jobs of queue email failed for good within the last 5 minutes.")
    assert found(given_up, flows(flow(9000, 12, 9))) == []
    assert found(given_up, flows(flow(9000, 12, 12), flow(9000, 600, 600, seconds=14_400))) == [], "as many as ever"


def test_a_queue_that_fails_is_one_finding():
    assert kinds(flows(flow(10, 40, 40))) == ["failing"]


def group(error="OSError: refused", *, given_up=0, retrying=0, ago=5.0, job="Mail", number=1, queue="email"):
    last_ms = NOW_MS - int(ago * 1000)
    return FailureGroup(queue, number, job, error, error, last_ms - 600_000, last_ms, given_up, retrying)


def test_a_service_is_away_and_jobs_are_tried_again():
    looked_at = readings(groups=[group(retrying=300), group("KeyError: 'a'", retrying=2, number=2)])
    [finding] = found(retrying, looked_at)
    assert (finding.severity, finding.queue, finding.job, finding.group_id) == ("critical", "email", "Mail", 1)
    assert finding.sentence == (
        "302 jobs of queue email have failed and wait for another attempt, 300 of them with OSError: refused (Mail), "
        "the last 5 seconds ago. So do jobs with 1 other error."
    )
    [finding] = found(retrying, readings(groups=[group(retrying=20)]))
    assert finding.severity == "warning"
    [finding] = found(retrying, readings(groups=[group(retrying=20)], recent={"email": flow(10, 40)}))
    assert finding.severity == "critical", "hardly anything works"


@pytest.mark.parametrize(
    "looked_at",
    [
        readings(groups=[group(retrying=5)]),
        readings(groups=[group(retrying=500, ago=3600)]),
        readings(groups=[group(retrying=50, given_up=90)]),
        readings(groups=[group(retrying=500, queue="deleted")]),
        readings(groups=[group("crash #: the process died", retrying=500)]),
        readings(),
    ],
    ids=["few", "long ago", "mostly given up", "another queue", "crashes", "none"],
)
def test_retries_that_are_no_finding(looked_at):
    assert found(retrying, looked_at) == []


def test_an_outage_is_one_finding():
    looked_at = readings(
        groups=[group(retrying=300)], recent={"email": flow(10, 300, 20)}, before={"email": flow(900, 1)}
    )
    assert kinds(looked_at) == ["retrying"]


def test_a_flood_of_failures_names_its_error():
    looked_at = readings(groups=[group(given_up=400, retrying=10)], recent={"email": flow(10, 400, 400)})
    assert kinds(looked_at) == ["failing"]
    [finding] = found(failing, looked_at)
    assert finding.sentence.endswith(" 400 jobs failed for good. Most of all with OSError: refused (Mail).")
    assert (finding.group_id, finding.job) == (1, "Mail")


def test_a_failure_without_a_class_has_one_pair_of_parentheses():
    looked_at = readings(groups=[group(given_up=400, job="(unreadable)")], recent={"email": flow(10, 400, 400)})
    [finding] = found(failing, looked_at)
    assert finding.sentence.endswith("OSError: refused (unreadable).")


def test_jobs_kill_their_processes():
    crash = "crash #: the process died while it ran Resize for # s: killed by SIGSEGV"
    looked_at = readings(
        groups=[group(crash, given_up=2, job="Resize"), group(f"{crash} again", given_up=1, job="Resize", number=2)]
    )
    [finding] = found(poison, looked_at)
    assert (finding.severity, finding.job, finding.group_id) == ("critical", "Resize", 1)
    assert "2 jobs of Resize in queue email killed the process that ran it, the last 5 seconds ago" in finding.sentence
    assert found(poison, readings(groups=[group(crash, given_up=2, ago=3600)])) == []
    assert found(poison, readings(groups=[group("the crash of a bus", given_up=2)])) == []
    assert found(poison, readings(groups=[group(crash, given_up=2, queue="deleted")])) == []
