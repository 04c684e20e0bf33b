"""The first page: what is wrong, and the queues, sorted and filtered, without a call for each of them."""

import html
import re
import time

import pytest

from pinlater.dashboard.count_cache import StateCounts
from pinlater.dashboard.figures import (
    DUE_RETRYING,
    ENQUEUED,
    STATE_GAUGES,
    WAITING_FOR_KEY,
    ServerFigures,
    ServerProcess,
)
from pinlater.dashboard.finding_links import link_of
from pinlater.dashboard.history import History
from pinlater.dashboard.queue_rows import QueueRow, queue_rows, sort_rows, total_of, waiting_for_key, workers_of
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.queues import QueueSettings
from pinlater.model.silence import SILENT_SECONDS
from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport
from pinlater.triage.findings import Finding, Kind, Severity
from tests.unit.dashboard.app import PAGES
from tests.unit.dashboard.failing import fail, retry_later


def names_in(page):
    return re.findall(r'<tr id="q-([^"]+)"', page.text)


def overview(browser, path="/"):
    """Return the first page as soon as it has found out what is wrong."""
    deadline = time.monotonic() + 30
    while "Looking for what is wrong" in (page := browser.get(path)).text:
        assert time.monotonic() < deadline
    return page


def tile(page, name):
    return re.search(rf'<span class="dot {name}">{name}</span><b>([^<]*)</b>', page.text)[1]


def test_what_is_wrong_is_on_top_with_a_link(browser, client):
    assert "Nothing is wrong" in overview(browser).text
    client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=int(time.time() * 1000) - 60_000)])
    app = browser.app.state.dashboard
    app.triage.forget()
    page = overview(browser).text
    finding = page.partition('data-finding="no_worker"')[2].partition("</li>")[0]
    assert "critical" in finding or "warning" in finding
    assert 'href="/workers?queue=pins"' in finding
    assert page.index('data-finding="no_worker"') < page.index('id="q-pins"')


def test_rates_say_that_they_are_of_one_server(browser):
    tiles = re.findall(r'<div class="tile [^>]*title="([^"]*)"><span>(\w+) /s</span>', browser.get("/").text)
    assert [name for title, name in tiles if title.endswith("at this server")] == ["enqueued", "succeeded", "failed"]


def test_a_filter_filters_all_figures(browser, client):
    client.create_queue("other")
    soon = int(time.time() * 1000) - 60_000
    client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=soon)] * 3)
    client.enqueue_jobs("other", [NewJob(b"{}", run_after_ms=soon)] * 4)
    assert tile(browser.get("/"), "pending") == "7"
    browser.app.state.dashboard.triage.forget()
    page = overview(browser, "/?q=oth")
    assert names_in(page) == ["other"]
    assert tile(page, "pending") == "4"
    assert page.text.count('data-finding="no_worker"') == 1
    assert "1 finding about other queues" in page.text
    assert "All figures are of the 1 queue" in page.text


@pytest.mark.parametrize("seconds", [0, 3600])
def test_retrying_jobs_are_apart_from_pending_and_scheduled_ones(browser, client, seconds):
    [descriptor] = retry_later(client, "OSError: away", seconds=seconds)
    later = int(time.time() * 1000) + 3_600_000
    client.enqueue_jobs("pins", [NewJob(b"{}"), NewJob(b"{}"), NewJob(b"{}", run_after_ms=later)])
    expected = {"pending": "2", "retrying": "1", "scheduled": "1", "failed": "0"}
    page = browser.get("/")
    assert {name: tile(page, name) for name in expected} == expected
    for name in ("pending", "retrying", "scheduled"):
        listed = browser.get(f"/jobs?queue=pins&state={name}").text
        assert (descriptor in listed) == (name == "retrying")
    assert '<span class="badge dot retrying">retrying</span>' in browser.get(f"/job?id={descriptor}").text


def test_jobs_that_wait_for_their_key_are_told_apart(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}", key=JobKey("ada", max_running=1))] * 4)
    client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=int(time.time() * 1000) + 3_600_000)])
    page = browser.get("/queues/pins")
    assert re.search(r"scheduled</span><b>[^<]*(<[^>]*>)?4<", page.text) is not None
    assert "3 wait for their key" in page.text


def test_queues_are_sorted_by_any_column(browser, client):
    for number, name in enumerate(("c_queue", "a_queue", "b_queue")):
        client.create_queue(name)
        client.enqueue_jobs(name, [NewJob(b"{}")] * (number + 1))
    with_numbers = browser.get("/?q=_queue")  # counts them; the server in this process samples nothing
    assert names_in(with_numbers) == ["a_queue", "b_queue", "c_queue"]
    assert names_in(browser.get("/?q=_queue&sort=queue&order=desc")) == ["c_queue", "b_queue", "a_queue"]
    page = browser.get("/?sort=workers&q=_queue")
    assert 'aria-sort="descending"><a href="/?q=_queue&amp;sort=workers&amp;order=asc">Workers' in page.text
    for link in re.findall(r'<th scope="col"[^>]*><a href="([^"]+)"', page.text):
        assert browser.get(html.unescape(link)).status_code == 200
    assert browser.get("/?sort=nonsense").status_code == 400
    assert browser.get("/?sort=queue&order=up").status_code == 400


def test_sorting_puts_unknown_values_last():
    def row(name, failed, rate):
        counts = None if failed is None else StateCounts(failed=failed)
        return QueueRow(name, QueueSettings(), counts, {"failed_rate": rate})

    rows = [row("a", 1, None), row("b", None, 2.0), row("c", 5, 1.0), row("d", 1, 0.0)]
    assert [one.name for one in sort_rows(rows, "failed", is_descending=True)] == ["c", "a", "d", "b"]
    assert [one.name for one in sort_rows(rows, "failed", is_descending=False)] == ["a", "d", "c", "b"]
    assert [one.name for one in sort_rows(rows, "failed_rate", is_descending=True)] == ["b", "c", "d", "a"]
    assert total_of(rows).failed == 7


def test_rows_know_what_the_server_has_sampled_and_who_serves_them():
    async def nothing():
        raise OSError

    history, now_ms = History(nothing), 1_000_000_000.0
    gauges = {name: {("pins",): 7.0} for name in STATE_GAUGES.values()}
    gauges |= {DUE_RETRYING: {("pins",): 3.0}, WAITING_FOR_KEY: {("pins",): 2.0}}
    for moment, enqueued in ((0.0, 0), (5.0, 50)):
        history.add(
            moment, ServerFigures([ServerProcess(1, None, 1, 0, 1)], {ENQUEUED: {("pins",): enqueued}}, {}, {}, gauges)
        )

    def worker(name, queues, age_seconds=0.0, **about):
        process = WorkerProcess(pid=1, queues=queues)
        return WorkerReport(
            id=name, host="h", processes=[process], reported_ms=int(now_ms - age_seconds * 1000), **about
        )

    reports = [
        worker("a", ["pins", "other"]),
        worker("b", ["pins"]),
        worker("silent", ["pins"], SILENT_SECONDS + 1),
        worker("draining", ["pins"], is_draining=True),
    ]
    settings = {"pins": QueueSettings(), "other": QueueSettings(), "idle": QueueSettings()}
    idle, other, pins = queue_rows(settings, history, {"pins": int(now_ms) - 3000}, reports, now_ms)
    assert pins.counts is not None
    assert (pins.counts.failed, pins.counts.retrying) == (7, 7)
    assert pins.counts.pending == 7 - 3, "due jobs that are retried are retrying alone"
    assert pins.counts.scheduled == 7 + 2
    assert waiting_for_key(history, "pins") == 2
    assert (pins.value("enqueued_rate"), pins.value("oldest"), pins.value("workers")) == (10.0, 3.0, 2)
    assert (other.counts, other.value("failed"), other.value("workers")) == (None, None, 1)
    assert idle.value("workers") == 0
    assert history.total_line("enqueued")[-1] == history.total_line("enqueued", ["pins"])[-1] == 10.0
    assert history.total_line("enqueued", ["idle"]) == []


def test_the_sum_of_workers_has_those_alone_that_take_jobs(browser, client):
    for name, is_draining in (("w1", False), ("w2", True)):
        process = WorkerProcess(pid=1, queues=["pins"])
        client.report_worker(WorkerReport(name, "web1", 1, processes=[process], is_draining=is_draining), 60.0)
    page = browser.get("/").text
    assert "<span>workers</span><b>1</b>" in page
    assert 'data-label="workers"><a href="/workers?queue=pins">1</a>' in page


def test_the_workers_of_a_queue():
    def worker(name, *processes):
        return WorkerReport(id=name, host=name, processes=list(processes), reported_ms=1000)

    busy = WorkerProcess(pid=1, queues=["pins"], jobs=[RunningJob("pins:s1:p1:1", 0)])
    idle, elsewhere = WorkerProcess(pid=2, queues=["pins"]), WorkerProcess(pid=3, queues=["other"])
    found = workers_of([worker("a", idle), worker("b", busy, idle, elsewhere), worker("c", elsewhere)], "pins", 2000.0)
    assert [(one.report.id, one.processes, one.busy, one.is_silent) for one in found] == [
        ("b", 2, 1, False),
        ("a", 1, 0, False),
    ]
    assert workers_of([worker("a", idle)], "pins", 2000.0 + SILENT_SECONDS * 1000)[0].is_silent


def test_a_queue_says_what_is_wrong_with_it_alone(browser, client):
    client.create_queue("other")
    for name in ("pins", "other"):
        client.enqueue_jobs(name, [NewJob(b"{}", run_after_ms=int(time.time() * 1000) - 60_000)])
    deadline = time.monotonic() + 30
    while 'data-finding="no_worker"' not in (page := browser.get("/queues/pins").text):
        assert time.monotonic() < deadline
    assert page.count('data-finding="no_worker"') == 1
    assert "No worker that reports to the server serves this queue" in page


def test_a_queue_names_its_largest_failures(browser, client):
    fail(client, *["OSError: away"] * 3, *[f"KeyError: '{letter}'" for letter in "abcdefg"])
    page = browser.get("/queues/pins").text.partition('id="failing"')[2].partition("</section>")[0]
    assert page.count("<tr>") == 1 + 5
    assert page.index("OSError: away") < page.index("KeyError")
    [link] = re.findall(r'href="([^"]+state=failed)">3<', page)
    assert browser.get(html.unescape(link)).text.count("OSError: away") >= 3
    assert "and 3 more" in page


def test_every_kind_of_finding_leads_to_a_page():
    for kind in Kind:
        finding = Finding(kind, Severity.WARNING, "pins", "title", "sentence", "advice", queue="pins", worker="w")
        path = link_of(finding).path.partition("?")[0]
        known = {one.partition("?")[0] for one in PAGES} | {"/server", "/periodic"}
        assert path in known, kind
