"""The page of periodic jobs."""

import asyncio
import re
import threading
import time

import pytest

from pinlater.client.periodic import PeriodicJobs
from pinlater.dashboard import paging, periodic_directory
from pinlater.dashboard.pages import periodic
from pinlater.dashboard.periodic_directory import PeriodicDirectory
from pinlater.model.jobs import NewJob
from pinlater.model.state import JobState
from tests.support.ports import free_port
from tests.unit.dashboard.app import ADMIN, LOCKED, READER, dashboard, log_in, post, rows, token_in
from tests.unit.dashboard.periodic_jobs import fail_attempt, plant


def test_without_periodic_jobs_the_page_says_how_to_make_one(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}", unique="Bill with a key of its own")])
    assert "No periodic jobs<" in browser.get("/periodic").text
    assert "No periodic jobs in this queue" in browser.get("/periodic?queue=pins").text
    assert browser.get("/periodic?queue=nothing").status_code == 404
    assert browser.get("/periodic?show=nothing").status_code == 400


def test_failing_and_late_ones_are_first(browser, client):
    plant(client, "Fine", "cron 0 3 * * 1-5 Europe/Berlin", run=7, last=("succeeded", 1500))
    plant(client, "Late", due_in_ms=-300_000, run=2, last=("discarded", 20))
    plant(client, "Fails", run=9, failures=4, last=("failed", 200), error="ValueError: no rate for EUR")
    plant(client, "New")
    plant(client, "Old", run=3)  # run by a worker that keeps nothing of it
    text = browser.get("/periodic").text
    fails, late, fine, new, old = rows(text)
    assert fails.startswith("Fails in pins ValueError: no rate for EUR every minute every 60.0 in ")
    assert re.search(r"failed (49|5.) s ago 4 failed in a row , took 200 ms, 9 runs Run now Pause$", fails)
    assert re.search(r"late 5 min .*discarded (49|5.) s ago took 20 ms, 2 runs Pause$", late)
    assert "at 03:00 from Monday to Friday, Europe/Berlin cron 0 3 * * 1-5 Europe/Berlin" in fine
    assert re.search(r"succeeded (48|49) s ago took 1.5 s, 7 runs", fine)
    assert "no run yet" in new
    assert "not recorded 3 runs" in old
    assert [row.split()[0] for row in rows(browser.get("/periodic?show=failing").text)] == ["Fails"]
    assert [row.split()[0] for row in rows(browser.get("/periodic?show=late").text)] == ["Late"]
    assert [row.split()[0] for row in rows(browser.get("/periodic?q=fIn").text)] == ["Fine"]
    assert "No periodic job matches" in browser.get("/periodic?q=other").text


def test_a_run_that_is_on_is_shown_as_running_or_retrying(browser, client):
    plant(client, "Busy", due_in_ms=-1000)
    browser.get("/periodic")  # which keeps which jobs there are
    client.dequeue_jobs("pins", 1)
    [busy] = rows(browser.get("/periodic").text)
    assert "running" in busy
    assert "Run now" not in busy
    client.create_queue("other")
    plant(client, "Flaky", queue="other", due_in_ms=-1000)
    fail_attempt(client, "other")
    [flaky] = rows(browser.get("/periodic?queue=other").text)
    assert re.search(r"in (29|30) s retrying", flaky)


def test_a_run_now_is_due_at_once(browser, client, caplog):
    descriptor = plant(client, "Bill")
    page = browser.get("/periodic?queue=pins")
    with caplog.at_level("INFO"):
        answer = post(
            browser, "/periodic", token_in(page), action="run-now", job=descriptor, back="/periodic?queue=pins"
        )
    assert (answer.status_code, answer.headers["location"]) == (303, "/periodic?queue=pins&done=run-now")
    assert "The run is due now" in browser.get(answer.headers["location"]).text
    assert f"action=run-now subject={descriptor} jobs=1" in caplog.text
    assert client.lookup([descriptor])[descriptor].run_after_ms <= time.time() * 1000
    again = post(browser, "/periodic", token_in(page), action="run-now", job=descriptor, back="//elsewhere")
    assert again.headers["location"] == "/periodic?done=unchanged"


def test_one_is_paused_and_resumed(browser, client, caplog):
    descriptor = plant(client, "Bill", due_in_ms=-20_000)
    due_ms = client.lookup([descriptor])[descriptor].run_after_ms
    csrf = token_in(browser.get("/periodic"))
    with caplog.at_level("INFO"):
        paused = post(browser, "/periodic", csrf, action="pause-periodic", job=descriptor, back="/periodic?show=late")
    assert paused.headers["location"] == "/periodic?show=late&done=pause-periodic"
    assert f"action=pause-periodic subject={descriptor} jobs=1" in caplog.text
    [row] = rows(browser.get("/periodic").text)
    assert re.search(r"paused was due 2\d s ago .* Resume$", row)
    assert "late" not in row
    assert client.dequeue_jobs("pins", 1) == []
    asked = post(browser, "/periodic", csrf, action="resume-periodic", job=descriptor)
    assert asked.headers["location"] == "/periodic?done=resume-periodic"
    assert client.lookup([descriptor])[descriptor].run_after_ms == due_ms
    assert [job.descriptor for job in client.dequeue_jobs("pins", 1)] == [descriptor]
    running = post(browser, "/periodic", csrf, action="pause-periodic", job=descriptor)
    assert running.headers["location"] == "/periodic?done=unchanged"
    assert post(browser, "/periodic", csrf, action="stop", job=descriptor).status_code == 400


def test_readers_and_hidden_bodies(local_server, client):
    plant(client, "Bill", failures=1, run=1, error="ValueError: no rate for EUR")
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        log_in(browser, READER)
        [row] = rows(browser.get("/periodic").text)
        assert "ValueError: no rate for EUR" in row
        assert "Run now" not in row
        descriptor = "pins:s1:p1:1"
        asked = post(browser, "/periodic", token_in(browser.get("/periodic")), job=descriptor, action="pause-periodic")
        assert asked.status_code == 403
        log_in(browser, ADMIN)
        assert "Run now" in browser.get("/periodic").text


def test_a_server_that_is_away_is_named_however_long_that_takes_to_find_out(monkeypatch):
    monkeypatch.setattr(periodic, "_PATIENCE_SECONDS", 0.0)  # as on a machine so busy that a refusal takes longer
    with dashboard(f"127.0.0.1:{free_port()}") as browser:
        answer = browser.get("/periodic")
        assert answer.status_code == 503
        assert "Server unavailable" in answer.text


def test_the_page_does_not_wait_until_very_many_queues_are_read(browser, client, monkeypatch):
    monkeypatch.setattr(periodic, "_PATIENCE_SECONDS", 0.05)
    plant(client, "Bill")
    asking = browser.app.state.dashboard.client
    read, may_go_on = asking.periodic_jobs, threading.Event()

    async def read_slowly(queues):
        await asyncio.to_thread(may_go_on.wait, 20)
        return await read(queues)

    monkeypatch.setattr(asking, "periodic_jobs", read_slowly)
    assert "Looking for periodic jobs" in browser.get("/periodic").text
    may_go_on.set()
    deadline = time.monotonic() + 20
    while "Bill" not in browser.get("/periodic").text:
        assert time.monotonic() < deadline


def test_very_many_are_paged(browser, client, monkeypatch):
    monkeypatch.setattr(paging, "PER_PAGE", 20)
    for number in range(45):
        plant(client, f"Class{number:02}")
    names = []
    for which in (1, 2, 3):
        text = browser.get(f"/periodic?page={which}").text
        assert f"page {which} of 3" in text
        assert ('rel="prev"' in text, 'rel="next"' in text) == (which > 1, which < 3), "the keys [ and ] follow them"
        names += [row.split()[0] for row in rows(text)]
    assert names == [f"Class{number:02}" for number in range(45)]


@pytest.mark.parametrize("name", ["<b>'\u202e", "\x1b[31m", "x" * 90])
def test_names_and_schedules_are_shown_and_never_obeyed(browser, client, name):
    plant(client, name, "every <script>", failures=1, error="<img src=x>")
    text = browser.get("/periodic").text.partition("<main")[2]
    assert "&lt;img src=x" in text
    assert not [part for part in ("<script>", "<img src=x", "<b>'") if part in text]
    assert not set(text) & set("\x1b\u202e")


def test_jobs_that_one_search_has_missed_are_remembered(browser, client, monkeypatch):
    client.create_queue("other")
    first, second = plant(client, "First"), plant(client, "Second", queue="other", failures=1)
    asking = browser.app.state.dashboard.client
    read_all, left_out = asking.periodic_jobs, {"pins"}

    async def read_some(names):
        found = await read_all(names)
        return PeriodicJobs([job for job in found.jobs if job.queue not in left_out], left_out & set(names))

    monkeypatch.setattr(asking, "periodic_jobs", read_some)
    directory = PeriodicDirectory(asking, clock=lambda: 0.0)
    found = browser.portal.call(directory.find)
    assert ([job.name for job in found.jobs], found.left_out) == (["Second"], {"pins"})
    left_out = {"other"}
    found = browser.portal.call(directory.find)
    assert ([job.name for job in found.jobs], found.left_out) == (["Second", "First"], set())
    client.delete_these("other", [second], JobState.PENDING)
    assert [job.info.descriptor for job in browser.portal.call(directory.find).jobs] == [first]
    assert browser.portal.call(directory.find, "other").jobs == []


def test_of_many_queues_some_are_searched_again_each_time_and_new_ones_at_once(browser, client, monkeypatch):
    queues = [f"queue{number}" for number in range(7)]
    for name in queues:
        client.create_queue(name)
    known = plant(client, "Known", queue="queue6")
    searched = []
    asking = browser.app.state.dashboard.client
    read_all = asking.periodic_jobs

    async def read_noted(names):
        searched.append(set(names))
        return await read_all(names)

    monkeypatch.setattr(asking, "periodic_jobs", read_noted)
    monkeypatch.setattr(periodic_directory, "_SEARCHED_AGAIN", 3)
    directory = PeriodicDirectory(asking, clock=lambda: 0.0)
    assert [job.name for job in browser.portal.call(directory.find).jobs] == ["Known"]
    plant(client, "New", queue="queue5")
    names = [[job.name for job in browser.portal.call(directory.find).jobs] for _ in range(3)]
    assert searched[0] == {"pins", *queues}
    assert [len(some) for some in searched[1:]] == [3, 3, 3]
    assert set().union(*searched[1:]) == searched[0]
    assert all("Known" in some for some in names)
    assert names[-1] == ["New", "Known"]
    client.create_queue("queue7")
    plant(client, "Newest", queue="queue7")
    found = {job.name: job for job in browser.portal.call(directory.find).jobs}
    assert (len(searched[-1]), "queue7" in searched[-1], len(found)) == (4, True, 3)
    assert found["Known"].info.descriptor == known


def test_between_searches_only_known_jobs_and_new_queues_are_read(browser, client, monkeypatch):
    now = [0.0]
    asking = browser.app.state.dashboard.client
    read_all = asking.periodic_jobs

    async def read_slowly(names):
        now[0] += 0.1
        searched.append(list(names))
        return await read_all(names)

    searched = []
    monkeypatch.setattr(asking, "periodic_jobs", read_slowly)
    directory = PeriodicDirectory(asking, clock=lambda: now[0])
    plant(client, "Known")
    browser.portal.call(directory.find)
    client.create_queue("other")
    for name in ("First", "Second"):
        plant(client, name, queue="other")
        assert [job.name for job in browser.portal.call(directory.find).jobs] == ["First", "Known"]
    assert searched == [["pins"], ["other"]]
    now[0] += periodic_directory._REST_FACTOR * 0.1
    found = browser.portal.call(directory.find)
    assert (searched[2:], len(found.jobs), found.left_out) == ([["pins", "other"]], 3, set())


def test_a_queue_that_was_deleted_is_new_when_it_is_there_again(browser, client, monkeypatch):
    client.create_queue("other")
    asking = browser.app.state.dashboard.client
    names = {"pins", "other"}

    async def queue_names():
        return names

    monkeypatch.setattr(asking, "queue_names", queue_names)
    directory = PeriodicDirectory(asking, clock=iter(range(1, 99)).__next__)  # it rests for long
    browser.portal.call(directory.find)
    names = {"pins"}
    browser.portal.call(directory.find)
    plant(client, "Again", queue="other")
    names = {"pins", "other"}
    assert [job.name for job in browser.portal.call(directory.find).jobs] == ["Again"]


def test_periodic_jobs_are_found_among_many_that_wait_for_later(client):
    later = int(time.time() * 1000) + 86_400_000
    client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=later + number) for number in range(6000)])
    plant(client, "Soon")
    descriptor = plant(client, "Paused")
    [paused] = [job for job in client.periodic_jobs(["pins"]).jobs if job.name == "Paused"]
    assert client.pause_periodic(paused)
    found = client.periodic_jobs(["pins"])
    assert [job.name for job in found.jobs] == ["Paused", "Soon"]
    assert found.jobs[0].info.descriptor == descriptor
