"""The page of what fails now."""

import re

import pytest

from pinlater.client.async_client import AsyncClient
from pinlater.dashboard import failing_groups, pages, paging
from pinlater.dashboard.pages import failing
from pinlater.dashboard.periodic_directory import PeriodicDirectory
from pinlater.model.failure_groups import FailureGroup, failure_of
from pinlater.model.state import JobState
from pinlater.model.statistics import Statistics, StatisticsKind
from tests.unit.dashboard.app import LOCKED, READER, dashboard, log_in, post, rows, token_in
from tests.unit.dashboard.failing import fail, retry_later
from tests.unit.dashboard.periodic_jobs import plant
from tests.unit.dashboard.test_bulk_actions import carried_out, fields_of, plan

HOUR_MS = 3_600_000


def groups_in(text):
    """Return the words of each row of the table of failure groups."""
    return rows(text.partition("Failures by class and error")[2])


def test_where_nothing_fails_the_page_says_what_would_be_there(browser):
    assert "Nothing fails<" in browser.get("/failing").text
    assert "Nothing fails in this queue<" in browser.get("/failing?queue=pins").text
    assert "Nothing of this kind fails" in browser.get("/failing?show=new").text
    assert browser.get("/failed?queue=pins").headers["location"] == "/failing?queue=pins"


def test_groups_are_shown_by_class_and_error_with_what_was_given_up_and_what_is_retrying(browser, client):
    client.create_queue("email")
    fail(client, *[f"OSError: port {number} refused" for number in range(3)])
    retry_later(client, "OSError: port 7 refused", count=2)
    retry_later(client, "ValueError: no address", job="SendMail", queue="email")
    text = browser.get("/failing").text
    refused, mail = groups_in(text)
    assert re.search(r"unknown class in pins new OSError: port \d refused 3 2 ", refused)
    assert re.search(r"SendMail in email new ValueError: no address 0 1 ", mail)
    assert "3 jobs given up and 3 retrying, in 2 groups" in text
    group = failure_of("SendMail", "ValueError: no address").group
    assert f'href="/jobs?queue=email&amp;group={group}&amp;state=retrying"' in text
    assert 'href="/classes?name=SendMail"' in text
    assert len(groups_in(browser.get("/failing?class=sendm").text)) == 1
    assert len(groups_in(browser.get("/failing?queue=pins").text)) == 1
    assert "no address" in groups_in(browser.get("/failing?show=retrying&sort=last").text)[0]
    assert len(groups_in(browser.get("/failing?show=given-up").text)) == 1


def test_all_that_was_given_up_in_a_group_is_retried_moved_and_deleted(browser, client):
    client.create_queue("rescue")
    fail(client, *[f"OSError: port {number} refused" for number in range(150)], "KeyError: 'locale'")
    page = browser.get("/failing")
    csrf, fields = token_in(page), fields_of(page, "refused")
    path = plan(browser, csrf, action="retry", back="/failing", **fields)
    assert "Retry 150 jobs?" in browser.get(path).text
    assert client.count("pins", JobState.FAILED) == 151  # nothing has happened yet
    assert "150 jobs retried" in carried_out(browser, csrf, path, attempts="2")
    assert ["locale" in row for row in groups_in(browser.get("/failing").text)] == [True]
    fields = fields_of(browser.get("/failing"), "locale")
    path = plan(browser, csrf, action="move", back="/failing", **fields)
    assert "1 job moved to" in carried_out(browser, csrf, path, to="rescue")
    fields = fields_of(browser.get("/failing?queue=rescue"), "locale")
    path = plan(browser, csrf, action="delete", back="/failing", **fields)
    assert "1 job deleted" in carried_out(browser, csrf, path)
    assert "Nothing fails<" in browser.get("/failing").text


def test_what_is_retrying_is_run_now_or_cancelled(browser, client):
    retry_later(client, "OSError: refused", count=3)
    page = browser.get("/failing")
    csrf, fields = token_in(page), fields_of(page, "refused")
    assert fields["state"] == "retrying"
    path = plan(browser, csrf, action="run-now", back="/failing", **fields)
    carried_out(browser, csrf, path)
    assert client.count("pins", JobState.PENDING) == 3


def test_trends_are_of_the_last_day(browser, client, monkeypatch):
    async def statistics(_, kind, *, resolution, since_ms, queues):
        assert (kind, resolution, queues) == (StatisticsKind.FAILURE, 3600, ["pins"])
        group = str(failure_of("", "OSError: refused").group)
        return [
            Statistics("pins", group, since_ms, failed=4),
            Statistics("pins", group, since_ms + 23 * HOUR_MS, failed=8),
        ]

    monkeypatch.setattr(AsyncClient, "statistics", statistics)
    fail(client, "OSError: refused")
    text = browser.get("/failing").text
    assert text.count('class="spark"') == 1
    assert "0.0,11.0 4.2,20.5" in text


def test_very_many_groups_are_paged_and_cut(browser, monkeypatch):
    monkeypatch.setattr(paging, "PER_PAGE", 20)
    monkeypatch.setattr(failing, "MOST_GROUPS", 45)

    async def groups(_, queues, *, limit):
        assert (queues, limit) == ([], failing_groups.MOST_GROUPS)
        return [
            FailureGroup("pins", number, "x" * 90, f"E{number}", "y" * 240, 1, 2, 10_000, 0) for number in range(45)
        ]

    monkeypatch.setattr(AsyncClient, "failure_groups", groups)
    text = browser.get("/failing?page=3").text
    assert "page 3 of 3" in text
    assert len(groups_in(text)) == 5
    assert "The 45 largest groups were read" in text
    assert "10,000+" in text
    assert "450,000+ jobs given up" in text


def test_periodic_jobs_that_fail_are_there(browser, client):
    plant(client, "Bill", run=3, failures=2, error="ValueError: no rate for EUR")
    plant(client, "Fine", "every 5.0", run=3)
    text = browser.get("/failing").text
    periodic = text.partition('id="periodic"')[2].partition("</section>")[0]
    assert "no rate for EUR" in periodic
    assert "Fine" not in periodic
    assert "running" not in periodic
    assert "Periodic jobs whose" not in browser.get("/failing?class=other").text


def test_a_periodic_job_that_fails_is_said_to_run_while_it_does(browser, client):
    plant(client, "Bill", due_in_ms=-1000, run=3, failures=2, error="ValueError: no rate for EUR")
    assert len(client.dequeue_jobs("pins", 1)) == 1
    periodic = browser.get("/failing").text.partition('id="periodic"')[2].partition("</section>")[0]
    assert "running" in periodic


def test_a_periodic_job_that_fails_is_shown_as_it_is_now_however_long_ago_it_was_found(
    local_server, client, monkeypatch
):
    async def find(_self, _queue=""):  # as a page finds it that caches what was found
        return first

    plant(client, "Bill", due_in_ms=-1000, run=3, failures=2, error="ValueError: no rate for EUR")
    first = client.periodic_jobs()
    monkeypatch.setattr(PeriodicDirectory, "find", find)
    assert len(client.dequeue_jobs("pins", 1)) == 1
    with dashboard(local_server.address) as browser:
        assert "running" in browser.get("/failing").text.partition('id="periodic"')[2].partition("</section>")[0]


def test_a_search_for_periodic_jobs_that_takes_long_is_not_taken_for_a_good_end(browser, client, monkeypatch):
    plant(client, "Bill", run=3, failures=2, error="ValueError: no rate for EUR")
    assert "Looking for periodic jobs" not in browser.get("/failing").text
    monkeypatch.setattr(pages.failing, "_PATIENCE_SECONDS", 0.0)
    assert "Looking for periodic jobs that fail" in browser.get("/failing?queue=pins").text


@pytest.mark.parametrize(
    ("path", "status"),
    [("/failing?queue=nothing", 404), ("/failing?show=x", 400), ("/failing?sort=x", 400), ("/failing?page=0", 400)],
)
def test_wrong_addresses_get_a_sentence(browser, path, status):
    assert browser.get(path).status_code == status


def test_readers_cannot_act(local_server, client):
    fail(client, "OSError: <script>alert(1)</script>")
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        log_in(browser, READER)
        page = browser.get("/failing")
        assert "&lt;script&gt;" in page.text
        assert "Retry…" not in page.text.partition("<main")[2]
        fields = {"matching": "1", "queue": "pins", "state": "failed", "group": "1", "action": "retry"}
        assert post(browser, "/plans", token_in(page), **fields).status_code == 403
