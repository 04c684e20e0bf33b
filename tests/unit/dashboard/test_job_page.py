"""The page of a job: what is in it, why it failed, who holds it; and nothing of that is obeyed."""

import html
import json
import time

import pytest

from pinlater import Job
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.state import JobState
from tests.unit.dashboard.app import post, token_in
from tests.unit.dashboard.failing import fail, failed_status

HOSTILE = "<img src=x onerror=alert(1)>\"'&\x1b[31m\x00\u202e\ud800"


@pytest.mark.parametrize(
    "body",
    [HOSTILE.encode("utf-8", "surrogatepass"), HOSTILE[:-1].encode(), b'{"a": "<script>alert(1)</script>\\u001b"}'],
)
def test_whatever_is_in_a_job_is_shown_and_never_obeyed(browser, client, body):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(body, status=HOSTILE[:-1], unique="<b>'\u202e", attempts=1)])
    for path in (f"/job?id={descriptor}", "/jobs?queue=pins", "/find?q=text:onerror"):
        text = browser.get(path).text
        assert "<img src=x" not in text
        assert "<script>alert" not in text
        assert not set(text) & set("\x1b\x00\u202e\ud800")
    [claimed] = client.dequeue_jobs("pins", 1)
    client.ack("pins", failed=[Ack(descriptor, claimed.claim, failed_status(f"ValueError: {HOSTILE[:-1]}"))])
    for path in ("/failing", f"/job?id={descriptor}", "/jobs?queue=pins&state=failed", "/find?q=error:onerror"):
        text = browser.get(path).text
        assert "&lt;img src=x" in text
        assert "<img src=x" not in text
        assert not set(text) & set("\x1b\x00\u202e")


class Import(Job, queue="imports"):
    url: str


@pytest.mark.parametrize(
    ("why", "text"),
    [("", "if the job gives up, it undoes"), ("<no> money", "the job gave up (<no> money), and undoes")],
)
def test_a_job_shows_what_its_sagas_would_undo(browser, client, why, text):
    client.create_queue("imports")
    saga = {"steps": ["book", *[f"book#{number}" for number in range(2, 24)]], "why": why}
    [descriptor] = client.enqueue_jobs("imports", [NewJob(json.dumps({"job": "Import", "$saga": saga}).encode())])
    page = browser.get(f"/job?id={descriptor}").text
    assert f"{text} book#23, book#22, " in html.unescape(page)
    assert " book#4 and 3 more" in page
    assert "<no>" not in page


@pytest.mark.parametrize(
    ("error", "is_told"), [("SagaUndone: the job gave up, and its sagas are undone: x", True), ("OSError: x", False)]
)
def test_before_a_retry_a_job_says_that_it_has_undone_its_steps(browser, client, error, is_told):
    [descriptor] = fail(client, error)
    assert ("It has undone its steps, so it fails again" in browser.get(f"/job?id={descriptor}").text) is is_told


def test_a_job_shows_what_is_kept_in_its_body(browser, client):
    client.create_queue("imports")
    body = (
        b'{"job":"Import","url":"https://example.com/",'
        b'"$steps":{"download":"/tmp/x"},"$sleeps":{"a while":99999999999999},'
        b'"$progress":{"done":30,"total":120,"note":"rows"},"$tries":{"check":[1,3]},"$enqueued":{"announce":"pins:s1:p1:7"},'
        b'"$policy":{"timeout":30.0},"$published":{"stage":"packing <b>","boxes":[3,4]}}'
    )
    [descriptor] = client.enqueue_jobs("imports", [NewJob(body)])
    text = browser.get(f"/job?id={descriptor}").text
    for expected in (
        "download",
        "/tmp/x",
        "a while",
        "sleeping",
        "25 %",
        "30 of 120",
        "rows",
        "3 times in attempt 1",
        "/job?id=pins%3As1%3Ap1%3A7",
        "timeout",
        "stage: packing &lt;b&gt;",
        "boxes: [3,4]",
    ):
        assert expected in html.unescape(text) or expected in text, expected
    assert "$steps" not in text
    assert '<progress max="1" value="0.25"' in text


@pytest.mark.parametrize(
    "body",
    [
        b"{" * 10_000,
        b'{"$steps": 7}',
        b'{"a": NaN}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":1,"a":2}',
        b"",
        b"\xff" * 5000,
        b"x" * 100_000,
        b'{"\\ud800": 1}',
        b'{"job": 7}',
    ],
)
def test_no_body_breaks_its_page(browser, client, body):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(body)])
    answer = browser.get(f"/job?id={descriptor}")
    assert answer.status_code == 200
    assert len(answer.content) < 200_000


def test_bytes_are_shown_in_hexadecimal(browser, client):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"PNG\x00\xff<")])
    assert "000000  50 4e 47 00 ff 3c" in browser.get(f"/job?id={descriptor}").text


def test_each_failed_attempt_has_a_block(browser, client):
    [descriptor] = fail(client, "OSError: connection refused")
    text = browser.get(f"/job?id={descriptor}").text
    assert "attempt 1 of 1" in text
    assert "OSError: connection refused" in text
    assert "mailer.send()" in text
    assert "after 520 ms" in text
    assert "web1" in text


def test_why_a_job_failed_stands_above_all_else(browser, client):
    [descriptor] = fail(client, "OSError: no route to host")
    page = browser.get(f"/job?id={descriptor}").text
    assert page.index("OSError: no route to host") < page.index("<h2>Details</h2>") < page.index("Failed attempts")
    [other] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    assert "Failed attempts" not in browser.get(f"/job?id={other}").text


def test_a_running_job_says_who_holds_it(browser, local_server, client):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    [claimed] = client.dequeue_jobs("pins", 1)
    text = browser.get(f"/job?id={claimed.descriptor}").text
    assert html.escape(client.source) in text
    assert "Delete…" not in text
    workers = browser.get("/workers").text
    assert "Other clients" in workers
    assert "/job?id=" in workers


def test_a_job_is_retried_and_deleted(browser, client):
    [descriptor] = fail(client, "OSError: 1")
    csrf = token_in(browser.get(f"/job?id={descriptor}"))
    answer = post(browser, "/job/retry", csrf, job=descriptor, attempts="3")
    assert answer.status_code == 303
    assert "The job is pending again" in browser.get(answer.headers["location"]).text
    info = client.lookup([descriptor])[descriptor]
    assert (info.state, info.attempts_remaining) == (JobState.PENDING, 3)
    again = post(browser, "/job/retry", csrf, job=descriptor, attempts="3")
    assert "Nothing was changed" in browser.get(again.headers["location"]).text
    stale = post(browser, "/job/delete", csrf, job=descriptor, state="FAILED")
    assert "Nothing was changed" in browser.get(stale.headers["location"]).text
    gone = post(browser, "/job/delete", csrf, job=descriptor, state="PENDING")
    assert browser.get(gone.headers["location"]).status_code == 404
    assert client.lookup([descriptor]) == {}


def test_a_job_that_waits_for_later_is_run_now(browser, client, caplog):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=int(time.time() * 1000) + 3_600_000)])
    page = browser.get(f"/job?id={descriptor}")
    assert "Run now" in page.text
    with caplog.at_level("INFO", "pinlater.audit"):
        answer = post(browser, "/job/run-now", token_in(page), job=descriptor)
    shown = browser.get(answer.headers["location"]).text
    assert "The job is due now." in shown
    assert "Run now" not in shown
    assert f"action=run-now subject={descriptor} jobs=1" in caplog.text
    [claimed] = client.dequeue_jobs("pins", 1)
    assert claimed.descriptor == descriptor
    again = post(browser, "/job/run-now", token_in(page), job=descriptor)
    assert "Nothing was changed" in browser.get(again.headers["location"]).text


def test_a_job_shows_its_key_and_that_it_waits(browser, client):
    ordered, limited = JobKey("ada & co", 1, is_ordered=True), JobKey("bob", 2)
    first, second, third = client.enqueue_jobs("pins", [NewJob(b"", key=key) for key in (ordered, ordered, limited)])
    text = browser.get(f"/job?id={first}").text
    assert "ada &amp; co" in text
    assert "one at a time, in order" in text
    assert "waits until other jobs of the key have run" not in text
    text = browser.get(f"/job?id={second}").text
    assert "waits until other jobs of the key have run" in text
    assert "/job/run-now" not in text, "it would change nothing"
    assert "2 at once" in browser.get(f"/job?id={third}").text
    assert "waits for its key" in browser.get("/jobs?queue=pins&state=scheduled").text
    assert "waits for its key" not in browser.get("/jobs?queue=pins&state=pending").text
