"""The order of findings."""

import json

from pinlater.triage.findings import Finding, Kind, Severity, sickest_first


def finding(kind, severity, subject="email", **numbers):
    return Finding(kind, severity, subject, "title", "sentence", "advice", numbers=numbers)


def test_the_sickest_comes_first():
    notice = finding(Kind.SHARD_AWAY, Severity.NOTICE)
    small = finding(Kind.RETRYING, Severity.CRITICAL, "a", jobs=5)
    large = finding(Kind.RETRYING, Severity.CRITICAL, "b", jobs=500)
    store = finding(Kind.STORE_SLOW, Severity.CRITICAL)
    warning = finding(Kind.STORE_FULL, Severity.WARNING)
    assert sickest_first([notice, warning, small, large, store]) == [store, large, small, warning, notice]


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
