"""What the dashboard shows of a real server, whatever is in it; and what its buttons do."""

import html
import re
import time
from urllib.parse import quote

import pytest

from pinlater import AsyncClient
from pinlater.dashboard import count_cache
from pinlater.dashboard.formatting import NOTHING
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.queues import FOLLOWS_LOAD, QueueSettings
from tests.support.patterns import SLOW_BODY, SLOW_PATTERN
from tests.support.ports import free_port
from tests.unit.dashboard.app import ADMIN, LOCKED, PAGES, READER, dashboard, log_in, post, sent_by, token_in


def test_a_server_without_queues_says_what_to_do(local_server):
    with dashboard(local_server.address) as browser:
        assert "pinlater create-queue" in browser.get("/").text
        assert "Nothing fails<" in browser.get("/failing").text
        assert "No workers<" in browser.get("/workers").text
        assert browser.get("/server").status_code == 200
        assert browser.get("/find?q=anything").status_code == 200
        assert browser.get("/charts").status_code == 200


def test_the_overview_counts_each_state(browser, client):
    later = int(time.time() * 1000) + 3_600_000
    client.enqueue_jobs("pins", [NewJob(b"{}")] * 3 + [NewJob(b"{}", run_after_ms=later)] * 2)
    client.dequeue_jobs("pins", 1)
    row = browser.get("/").text.partition('id="q-pins"')[2]
    counts = [
        row.partition(f"state={name}")[2].partition("</a>")[0] for name in ("pending", "scheduled", "running", "failed")
    ]
    assert [text.rpartition("<span class=")[2].partition(">")[2].partition("<")[0] for text in counts] == [
        "2",
        "2",
        "1",
        "0",
    ]


def test_what_was_not_counted_to_its_end_has_a_plus(local_server, client):
    client.enqueue_jobs("pins", [NewJob(b"{}", priority=1 + number % 2) for number in range(60)])
    with dashboard(local_server.address, count_limit=20) as browser:
        pages = [browser.get("/").text, browser.get("/queues/pins").text, browser.get("/jobs?queue=pins").text]
    assert all("60+" in page for page in pages)
    assert "30+" in pages[1]


def test_the_tiles_of_a_queue_are_the_sums_of_its_priorities(browser, client):
    browser.get("/")  # which counts the queue as a whole, and keeps that for a while
    client.enqueue_jobs("pins", [NewJob(b"{}", priority=priority) for priority in (1, 2, 2, 3)])
    tiles, _, table = browser.get("/queues/pins").text.partition("By priority")
    [whole] = re.findall(r'state=pending">.*?<b><span[^>]*>(\d+)</span>', tiles)
    parts = re.findall(r'state=pending&amp;priority=\d"><span[^>]*>(\d+)</span>', table)
    assert (whole, parts) == ("4", ["1", "2", "1"])


def test_queues_that_cannot_be_counted_in_time_are_shown_all_the_same(browser, client, monkeypatch):
    monkeypatch.setattr(count_cache, "_LONG_PATIENCE_SECONDS", 0.0)
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    text = browser.get("/").text
    assert "1 queue has not been counted yet" in " ".join(text.split())
    row = text.partition('<tr id="q-pins">')[2].partition("</tr>")[0]
    assert row.partition("state=pending")[2].partition("</a>")[0].endswith(f">{NOTHING}")


def test_queues_are_paged_and_filtered(browser, client):
    for number in range(60):
        client.create_queue(f"queue_{number:02}")
    first, second = browser.get("/").text, browser.get("/?page=2").text
    assert first.count('<tr id="q-') == 50
    assert second.count('<tr id="q-') == 11
    assert "61 queues, page 1 of 2" in first
    assert browser.get("/?q=QUEUE_07").text.count('<tr id="q-') == 1
    assert "No matching queues" in browser.get("/?q=nothing").text


def test_a_page_that_refreshes_itself_gets_the_living_part_alone(browser):
    whole, part = browser.get("/queues/pins").text, browser.get("/queues/pins", headers={"hx-request": "true"}).text
    assert "<html" in whole
    assert "<html" not in part
    assert part.strip().startswith('<div id="live"')
    assert 'hx-get="/queues/pins"' in part


def test_jobs_are_paged_by_the_continuation(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"%d" % number) for number in range(120)])
    seen, pages, path = [], [], "/jobs?queue=pins"
    while path:
        text = browser.get(path).text
        seen += [part.partition('"')[0] for part in text.split('class="job-name" href="/job?id=')[1:]]
        path = _link(text, "next")
        pages.append(text)
    assert len(seen) == len(set(seen)) == 120
    second = browser.get(_link(pages[2], "prev")).text
    assert _link(second, "next") == _link(pages[1], "next")
    assert browser.get(_link(second, "prev")).text.count('class="job-name"') == 50


def _link(text, rel):
    found = re.search(f'rel="{rel}" href="([^"]+)"', text)
    return found and html.unescape(found[1])


def test_jobs_are_filtered_by_state_priority_and_body(browser, client):
    client.enqueue_jobs("pins", [NewJob(b'{"user": 42}', priority=2), NewJob(b'{"user": 7}'), NewJob(b'{"user": 42}')])
    assert browser.get("/jobs?queue=pins&body=%22user%22: 42").text.count("/job?id=") == 2
    assert browser.get("/jobs?queue=pins&body=42&priority=2").text.count("/job?id=") == 1
    assert "No failed job matches this filter" in browser.get("/jobs?queue=pins&state=failed&body=42").text


@pytest.mark.parametrize("path", ["/queues/pins", "/jobs?queue=pins"])
def test_a_queue_whose_jobs_take_long_to_count_is_not_said_to_be_gone(browser, monkeypatch, path):
    with monkeypatch.context() as patched:
        patched.setattr(count_cache, "_LONG_PATIENCE_SECONDS", 0.0)
        answer = browser.get(path)
    assert answer.status_code == 503
    assert "retries every few seconds" in answer.text
    assert browser.get(path).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs", 400),
        ("/jobs?queue=nothing", 404),
        ("/jobs?queue=pins&state=asleep", 400),
        ("/jobs?queue=pins&priority=9", 400),
        ("/jobs?queue=pins&priority=x", 400),
        ("/jobs?queue=pins&body=" + "x" * 2000, 400),
        ("/jobs?queue=pins&from=nonsense", 400),
        ("/queues/nothing", 404),
        ("/queues/%00", 400),
        ("/queues/..%2f..%2fetc", 404),
        ("/job?id=nonsense", 400),
        ("/job?id=" + "x" * 5000, 400),
        ("/job", 400),
        ("/job?id=pins:s1:p1:999", 404),
        ("/job?id=nothing:s1:p1:999", 404),
        ("/find?q=%00", 200),
        ("/find?q=key:%00", 200),
        ("/job?id=pins:s9:p1:1", 404),
        ("/job/edit?id=pins:s9:p1:1", 404),
        ("/failing?queue=nothing", 404),
        ("/workers?queue=nothing", 404),
        ("/plans/nothing", 404),
        ("/?page=0", 400),
        ("/?page=99999999", 400),
        ("/?page=%F0%9F%90%99", 400),
        ("/nothing", 404),
        ("/queues/pins/", 404),
    ],
)
def test_wrong_addresses_get_a_sentence(browser, path, status):
    answer = browser.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    assert 'class="card empty-state"' in answer.text


def test_a_search_of_very_much_text_ends_and_goes_on(browser, client):
    client.enqueue_jobs("pins", [NewJob(SLOW_BODY)] * 60)
    answer = browser.get("/jobs?queue=pins&body=" + quote(SLOW_PATTERN))
    assert answer.status_code == 200  # the server ends the search after two seconds of work
    assert re.search(r"looked at \d+ of about 60 jobs", answer.text)
    assert "Go on from there" in answer.text


def test_a_wrong_regular_expression_is_explained_beside_its_field(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    answer = browser.get("/jobs?queue=pins&state=pending&body=" + quote("user_(id"))
    assert answer.status_code == 400
    assert 'aria-describedby="problem"' in answer.text
    assert re.search(r'id="problem" role="alert">The body pattern is refused: missing \): user_\(id', answer.text)
    assert 'value="/user_(id/"' in answer.text  # to be corrected
    assert "No pending job" not in answer.text


def test_a_page_of_a_list_that_never_was_leads_to_the_first(browser, client):
    answer = browser.get("/jobs?queue=pins&state=failed&from=nonsense")
    assert answer.status_code == 400
    assert 'href="/jobs?queue=pins&amp;state=failed">Back' in answer.text


def test_texts_in_the_address_are_escaped(browser):
    for path in ("/find?q=", "/jobs?queue=pins&body=", "/?q=", "/failing?queue=", "/job?id="):
        text = browser.get(path + quote('"><script>alert(1)</script>')).text
        assert "<script>alert" not in text


def test_limits_are_set_and_taken_away(browser, client):
    csrf = token_in(browser.get("/queues/pins"))
    assert post(browser, "/queues/pins", csrf, action="limit", rate="1,000.5", running="7").status_code == 303
    assert client.queue_settings()["pins"][:3] == (False, 1000.5, 7)
    for rate, running in (("x", ""), ("-1", ""), ("nan", ""), ("0,5", ""), ("", "1.5"), ("1e99", "")):
        assert post(browser, "/queues/pins", csrf, action="limit", rate=rate, running=running).status_code == 400
    assert post(browser, "/queues/pins", csrf, action="limit", rate="", running="").status_code == 303
    assert client.queue_settings()["pins"][:3] == (False, None, None)
    assert post(browser, "/queues/pins", csrf, action="explode").status_code == 400


def test_the_rate_of_the_servers_file_is_not_stored(browser, client, monkeypatch):
    client.change_queue("pins", jobs_per_second=50)

    async def effective(self):
        return {"pins": QueueSettings(jobs_per_second=10.0, is_from_file=True)}

    monkeypatch.setattr(AsyncClient, "queue_settings", effective)
    page = browser.get("/queues/pins")
    assert "The rate comes from the server's file" in page.text
    sent = sent_by(page, "/queues/pins", "running")
    assert post(browser, "/queues/pins", **sent | {"running": "7"}, action="limit").status_code == 303
    assert client.queue_settings()["pins"][:3] == (False, 50.0, 7)


def test_the_number_of_shards_is_set_and_shown(browser, client):
    csrf = token_in(browser.get("/queues/pins"))

    def save(**fields):
        return post(browser, "/queues/pins", csrf, action="limit", rate="", running="", **fields).status_code

    def shown():
        return re.search(r'name="shards" maxlength="12" value="(\w*)"', browser.get("/queues/pins").text)[1]

    for text, shards in (("2", 2), ("auto", FOLLOWS_LOAD), ("", None)):
        assert save(shards=text) == 303
        assert (client.queue_settings()["pins"].shards, shown()) == (shards, text)
    for text in ("0", "-1", "some", "1.5", "9" * 11):
        assert save(shards=text) == 400
    save(shards="3")
    save()
    assert client.queue_settings()["pins"].shards == 3, "a form without the field leaves it"


def test_the_queue_page_names_the_shards_that_new_jobs_go_to(browser, client, monkeypatch):
    def answer(settings):
        async def queue_settings(self):
            return {"pins": settings}

        monkeypatch.setattr(AsyncClient, "queue_settings", queue_settings)
        page = browser.get("/queues/pins").text
        return re.search(r'title="new jobs without a key go to ([^"]*)">([^<]*)<', page)

    assert answer(QueueSettings()) is None
    assert answer(QueueSettings(shards=1, active_shards=("a",))).groups() == ("shard a", "1 shard")
    undecided = answer(QueueSettings(shards=FOLLOWS_LOAD)).groups()
    assert undecided == ("all shards, as many as the load needs", "all shards, auto")
    by_load = QueueSettings(shards=FOLLOWS_LOAD, shards_by_load=2, active_shards=("a", "b"))
    assert answer(by_load).groups() == ("shards a, b, as many as the load needs", "2 shards, auto")


def test_the_look_up_box_leads_to_jobs_queues_and_texts(browser, client):
    client.enqueue_jobs("pins", [NewJob(b'{"user": "ada@example.com"}'), NewJob(b'{"user": "adaXexample"}')])
    assert browser.get("/find?q=pins:s1:p1:1").headers["location"] == "/job?id=pins:s1:p1:1"
    assert browser.get("/find?q=pins").headers["location"] == "/queues/pins"
    assert browser.get("/find?q=ada%40example.com").text.count("/job?id=") == 1
    assert "No job has this text" in browser.get("/find?q=grace").text
    assert 'href="/queues/pins"' in browser.get("/find?q=pin").text


def test_bodies_are_hidden_until_asked_for(local_server, client, caplog):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b'{"job":"X","secret":"hunter2","$steps":{"pay":"hunter2"}}')])
    with dashboard(local_server.address, hides_bodies=True) as browser, caplog.at_level("INFO", "pinlater.audit"):
        browser.get("/jobs?queue=pins&body=hunter 2")
        assert caplog.records.pop().getMessage() == 'who=admin@127.0.0.1 action=search-bodies subject="/hunter 2/"'
        browser.get("/find?q=x%20who=root")
        assert caplog.records.pop().getMessage().endswith('subject="x who=root"')
        page = browser.get(f"/job?id={descriptor}")
        assert "hunter2" not in page.text
        assert not caplog.records
        assert "hunter2" in post(browser, "/job/body", token_in(page), job=descriptor).text
    assert [record.getMessage() for record in caplog.records] == [
        f"who=admin@127.0.0.1 action=show-body subject={descriptor} jobs=1"
    ]


@pytest.mark.parametrize("path", ["/jobs?queue=pins&state=pending&body=hunter2", "/find?q=hunter2"])
def test_a_reader_cannot_search_hidden_bodies(local_server, client, path):
    client.enqueue_jobs("pins", [NewJob(b'{"secret":"hunter2"}')])
    with dashboard(local_server.address, **LOCKED, hides_bodies=True) as browser:
        log_in(browser, READER)
        refused = browser.get(path)
        assert refused.status_code == 403
        assert "pins:s1:p1:1" not in refused.text
        assert "bodies are hidden" in refused.text.lower()
        plain = browser.get("/jobs?queue=pins&state=pending")
        assert "pins:s1:p1:1" in plain.text
        assert 'name="body"' not in plain.text  # what is refused is not offered
        log_in(browser, ADMIN)
        assert "pins:s1:p1:1" in browser.get(path).text


def test_a_reader_may_search_bodies_that_are_not_hidden(local_server, client):
    client.enqueue_jobs("pins", [NewJob(b'{"secret":"hunter2"}')])
    with dashboard(local_server.address, **LOCKED) as browser:
        log_in(browser, READER)
        for path in ("/jobs?queue=pins&state=pending&body=hunter2", "/find?q=hunter2"):
            assert "pins:s1:p1:1" in browser.get(path).text


def test_a_server_that_is_away_is_named_and_found_again(tmp_path):
    port = free_port()
    with dashboard(f"127.0.0.1:{port}") as browser:
        for path in PAGES:
            answer = browser.get(path)
            assert answer.status_code == 503, path
            assert "Server unavailable" in answer.text
            assert 'http-equiv="refresh"' in answer.text
        assert browser.get("/livez").status_code == 200
        assert browser.get("/server").status_code == 200


def test_what_takes_the_space_is_counted_if_asked_for(browser, client):
    client.create_queue("old")
    client.enqueue_jobs("old", [NewJob(b"{}")] * 3)
    claimed = client.dequeue_jobs("old", 2)
    client.ack("old", succeeded=[Ack(job.descriptor, job.claim) for job in claimed])
    assert "Queues and states with most jobs" not in browser.get("/server").text
    rows = browser.get("/server?space=1").text.partition("Queues and states with most jobs")[2].split("<tr data-row>")
    assert "succeeded" in rows[1]
    assert ">2<" in rows[1]
    assert "pinlater delete-jobs old --state succeeded --older-than 1d" in rows[1]
    assert 'href="/jobs?queue=old&amp;state=succeeded&amp;order=oldest"' in rows[1]
    assert "delete-jobs" not in rows[2], "a pending job is no rubbish"
