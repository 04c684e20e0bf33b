"""The search box: errors, classes, keys, and text in bodies, over all queues."""

import pytest

from pinlater.dashboard.job_search import Wanted
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.workers import JobClass, WorkerReport
from tests.unit.dashboard.app import LOCKED, READER, dashboard, log_in
from tests.unit.dashboard.failing import fail

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
