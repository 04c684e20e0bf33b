"""What is told of findings that come and go."""

import json

from pinlater.triage.alerts import REPEAT_SECONDS, AlertBook
from pinlater.triage.findings import Finding, Kind, Severity


def finding(severity=Severity.WARNING, subject="email", kind=Kind.BACKLOG):
    return Finding(kind, severity, subject, f"Queue {subject} is behind", "9 jobs wait.", "Start workers.")


def told(book, *findings, now=0.0):
    return [(alert.event.value, alert.finding.subject) for alert in book.update(findings, now)]


def test_each_finding_is_told_once():
    book = AlertBook()
    assert told(book, finding(), finding(subject="sms")) == [("new", "email"), ("new", "sms")]
    assert told(book, finding(), finding(subject="sms"), now=30) == []


def test_a_finding_is_over_when_two_looks_miss_it():
    book = AlertBook()
    told(book, finding())
    assert told(book, now=30) == []
    assert told(book, finding(), now=60) == []
    assert told(book, now=90) == []
    assert told(book, now=120) == [("gone", "email")]
    assert told(book, now=150) == []
    assert told(book, finding(), now=180) == [("new", "email")]


def test_a_server_that_restarts_is_not_told():
    book = AlertBook()
    away = [finding(kind=kind) for kind in (Kind.ONE_SERVER_AWAY, Kind.SERVER_NOT_READY)]
    for now in (0.0, 60.0, 120.0):
        assert told(book, *away, now=now) == told(book, now=now + 30) == []
    assert told(book, *away, now=180) == []
    assert told(book, *away, now=210) == [("new", "email")] * 2
    assert told(book, now=240) == told(book, *away, now=270) == told(book, now=300) == []
    assert told(book, now=330) == [("gone", "email")] * 2


def test_a_finding_is_not_over_while_it_cannot_be_checked():
    book = AlertBook()
    told(book, finding(), finding(kind=Kind.STORE_FULL))
    for now in (30.0, 60.0, 90.0):
        book.update([finding()], now, {Kind.STORE_FULL})
    assert told(book, finding(), finding(kind=Kind.STORE_FULL), now=120) == []
    assert told(book, finding(), now=150) == []
    assert told(book, finding(), now=180) == [("gone", "email")]


def test_what_lasts_is_told_again_after_an_hour():
    book = AlertBook()
    told(book, finding())
    assert told(book, finding(), now=REPEAT_SECONDS - 1) == []
    assert told(book, finding(), now=REPEAT_SECONDS) == [("still", "email")]
    assert told(book, finding(), now=REPEAT_SECONDS + 30) == []


def test_what_gets_worse_is_told_at_once():
    book = AlertBook(Severity.WARNING)
    assert told(book, finding(Severity.NOTICE)) == []
    assert told(book, finding(Severity.WARNING)) == [("new", "email")]
    assert told(book, finding(Severity.CRITICAL), now=30) == [("worse", "email")]
    assert told(book, finding(Severity.WARNING), now=60) == []
    assert told(book, finding(Severity.CRITICAL), now=90) == [], "as it was told"


def test_an_alert_is_one_line_and_json():
    book = AlertBook()
    [new] = book.update([finding()], 0.0)
    assert new.text == "warning: Queue email is behind. 9 jobs wait. Start workers."
    written = json.loads(json.dumps(new.to_json()))
    assert (written["event"], written["key"], written["finding"]["kind"]) == ("new", "backlog email", "backlog")
    book.update([], 30.0)
    [gone] = book.update([], 60.0)
    assert gone.text == "over: Queue email is behind"
