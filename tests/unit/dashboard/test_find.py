"""The search box: errors, classes, keys, and text in bodies, over all queues."""

import html
import re
import time

import pytest

from pinlater.dashboard import job_search
from pinlater.dashboard.job_search import KEY_JOBS, Wanted
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.state import JobState
from pinlater.model.workers import JobClass, WorkerReport
from pinlater.server.backends import body_walk
from tests.unit.dashboard.app import LOCKED, READER, dashboard, log_in, rows, token_in
from tests.unit.dashboard.failing import fail
from tests.unit.dashboard.test_bulk_actions import carried_out, plan

SEND = b'{"job":"Send","user_id":42}'


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [("ada", "", "ada"), ("error: no route", "error", "no route"), ("key:", "", "key:"), ("http://x", "", "http://x")],
)
def test_a_word_before_a_colon_narrows_the_search(text, kind, wanted):
    assert Wanted.parse(text) == (wanted, kind)


def test_jobs_are_found_by_argument_key_and_unique_key(browser, client):
    client.create_queue("email")
    [by_argument] = client.enqueue_jobs("email", [NewJob(SEND)])
    [by_key] = client.enqueue_jobs("pins", [NewJob(b"{}", key=JobKey("customer-7"))])
    [by_unique] = client.enqueue_jobs("pins", [NewJob(b"{}", unique="invoice-9")])
    for text, name in (("user_id%3D42", by_argument), ("customer-7", by_key), ("key:invoice-9", by_unique)):
        page = browser.get(f"/find?q={text}").text
        assert name in page.replace("%3A", ":"), text
        assert ">1 job<" in page
    assert by_unique not in browser.get("/find?q=text:invoice-9").text.replace("%3A", ":")


def test_a_key_is_found_however_many_jobs_came_later(browser, client):
    due_ms = int(time.time() * 1000) + 3_600_000
    [keyed] = client.enqueue_jobs("pins", [NewJob(b"{}", key=JobKey("customer-7"))])
    [unique] = client.enqueue_jobs("pins", [NewJob(b"{}", unique="invoice-9", run_after_ms=due_ms)])
    client.enqueue_jobs("pins", [NewJob(b"{}", key=JobKey("customer-70"), run_after_ms=due_ms + 1)] * (KEY_JOBS + 5))
    for text, name in (("key:customer-7", keyed), ("invoice-9", unique)):
        page = browser.get(f"/find?q={text}").text
        assert name in page.replace("%3A", ":"), text
        assert "exactly this key were looked up" in page
    listed = browser.get("/jobs?queue=pins&key=customer-7").text
    assert listed.count('class="job-name"') == 1
    assert 'href="/jobs?queue=pins&amp;key=customer-7"' in listed
    assert browser.get("/jobs?queue=pins&key=customer-70").text.count('class="job-name"') == 50
    assert "PENDING or IN_PROGRESS" in browser.get("/jobs?queue=pins&state=failed&key=customer-7").text


def test_all_open_jobs_with_a_status_are_shown_as_far_as_there_is_room(browser, client, monkeypatch):
    client.enqueue_jobs("pins", [NewJob(b"{}", status="import of may")] * 15)
    page = browser.get("/find?q=key:may").text
    assert "at least" not in page
    assert "15 jobs" in page
    assert len(rows(page)) == 15
    monkeypatch.setattr(job_search, "_MOST_FOUND", 12)
    page = browser.get("/find?q=key:may").text
    assert "at least 12 jobs" in page
    assert "3 more pending jobs of pins" in rows(page)[-1]


def test_all_jobs_of_a_key_are_acted_upon(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}", key=JobKey("ada")), *[NewJob(b"{}", key=JobKey("bob"))] * 3])
    fields = {"queue": "pins", "state": "pending", "key": "bob", "matching": "1", "back": "/"}
    csrf = token_in(browser.get("/jobs?queue=pins&key=bob"))
    path = plan(browser, csrf, action="delete", **fields)
    assert "key bob" in browser.get(path).text
    carried_out(browser, csrf, path)
    assert [job.key.text for job in client.scan("pins", JobState.PENDING).jobs] == ["ada"]


def test_a_search_of_bodies_that_is_cut_has_a_link_that_goes_on(browser, client, monkeypatch):
    monkeypatch.setattr(body_walk, "MAX_PAGES", 2)
    monkeypatch.setattr(body_walk, "FIRST_PAGE_JOBS", 5)
    monkeypatch.setattr(body_walk, "NEXT_PAGE_JOBS", 5)
    [rare] = client.enqueue_jobs("pins", [NewJob(SEND)])
    client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=int(time.time() * 1000))] * 12)
    page = browser.get("/find?q=user_id%3D42").text
    assert "Nothing found so far" in page
    path = html.unescape(re.search(r'href="([^"]*)">pins \(go on\)', page)[1])
    while rare not in (page := browser.get(path).text).replace("%3A", ":"):
        path = html.unescape(re.search(r'rel="next" href="([^"]*)"', page)[1])
    assert "from=" in path


def test_errors_lead_to_their_jobs(browser, client):
    fail(client, *["OSError: no route to 10.0.0.7"] * 3, body=SEND)
    page = browser.get("/find?q=error:NO ROUTE").text
    assert "1 failure group" in page
    assert "state=failed&amp;group=" in page


def test_classes_are_found_by_what_workers_report(browser, client):
    client.report_worker(WorkerReport("w1", "web1", 1, classes=[JobClass("SendMail", "pins")]), 60.0)
    assert "/classes?name=SendMail" in browser.get("/find?q=class:mail").text


def test_more_than_is_shown_is_said_and_linked(browser, client):
    client.enqueue_jobs("pins", [NewJob(SEND)] * 25)
    page = browser.get("/find?q=user_id%3D42").text
    assert "at least 10 jobs" in page
    assert "/jobs?queue=pins&amp;state=pending&amp;argument=user_id%3D42" in page
    assert "Copy link" in page


def test_where_bodies_are_hidden_readers_search_the_rest(local_server, client):
    client.enqueue_jobs("pins", [NewJob(SEND, unique="invoice-9")])
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        log_in(browser, READER)
        assert browser.get("/find?q=user_id").status_code == 403
        page = browser.get("/find?q=key:invoice-9")
        assert page.status_code == 200
        assert "pins:s1:p1" in page.text.replace("%3A", ":")
        assert "user_id" not in page.text
