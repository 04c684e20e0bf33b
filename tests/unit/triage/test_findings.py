"""The order of findings."""

import json

from pinlater.triage.findings import Finding, Kind, Severity, sickest_first

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


def finding(kind, severity, subject="email", affected=0, since=None, **numbers):
    return Finding(
        kind, severity, subject, "title", "sentence", "advice", since_ms=since, numbers=numbers, affected=affected
    )


def assert_order(*findings):
    assert sickest_first(reversed(findings)) == sickest_first(findings) == list(findings)


def test_severity_counts_more_than_jobs_and_time():
    assert_order(
        finding(Kind.NO_WORKER, CRITICAL, affected=1, since=9),
        finding(Kind.RETRYING, WARNING, affected=500, since=1),
        finding(Kind.SHARD_AWAY, Severity.NOTICE),
    )


def test_the_number_of_jobs_counts_more_than_time_and_kind():
    assert_order(
        finding(Kind.RETRYING, CRITICAL, "a", affected=500, since=9),
        finding(Kind.POOL_GONE, CRITICAL, affected=5, since=1),
        finding(Kind.RETRYING, CRITICAL, "b", affected=4, since=2),
        finding(Kind.POISON, CRITICAL, since=1),
    )


def test_other_numbers_do_not_count_as_jobs():
    assert_order(
        finding(Kind.BACKLOG, WARNING, affected=200, jobs=200, waits_seconds=700),
        finding(Kind.BACKLOG, WARNING, affected=150, jobs=150, waits_seconds=90_000),
        finding(Kind.MEMORY_GROWS, WARNING, bytes=9e9, grown_bytes=8e9),
    )


def test_what_concerns_all_jobs_comes_before_what_concerns_some():
    assert_order(
        finding(Kind.STORE_SLOW, CRITICAL),
        finding(Kind.POOL_GONE, CRITICAL, affected=10_000),
    )


def test_of_as_many_jobs_what_lasts_longest_comes_first():
    assert_order(
        finding(Kind.WORKER_SILENT, WARNING, "a", since=1),
        finding(Kind.PAUSED, WARNING, "b", since=2),
        finding(Kind.CLOCK_OFF, WARNING, "c", ahead_seconds=9),
    )


def test_the_fullest_shard_and_the_clock_that_is_off_most_come_first():
    full = finding(Kind.STORE_FULL, Severity.WARNING, "1", free_bytes=150e6)
    fuller = finding(Kind.STORE_FULL, Severity.WARNING, "2", free_bytes=60e6)
    ahead = finding(Kind.CLOCK_OFF, Severity.WARNING, "a", ahead_seconds=7)
    behind = finding(Kind.CLOCK_OFF, Severity.WARNING, "b", ahead_seconds=-90)
    assert sickest_first([ahead, behind, full, fuller]) == [fuller, full, behind, ahead]


def test_a_finding_keeps_its_key_while_its_numbers_change():
    assert finding(Kind.PAUSED, Severity.NOTICE, jobs=1).key == finding(Kind.PAUSED, Severity.WARNING, jobs=9).key
    assert finding(Kind.PAUSED, Severity.NOTICE).key != finding(Kind.BACKLOG, Severity.NOTICE).key


def test_it_can_be_written_as_json():
    written = json.loads(json.dumps(finding(Kind.PAUSED, Severity.NOTICE, jobs=1).to_json()))
    assert (written["kind"], written["severity"], written["numbers"]) == ("paused", "notice", {"jobs": 1})
