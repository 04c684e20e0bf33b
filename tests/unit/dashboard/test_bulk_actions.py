"""Changes of many jobs: their number first, then their progress."""

import asyncio
import html
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.state import JobState
from tests.unit.dashboard.app import post, token_in
from tests.unit.dashboard.failing import fail


def plan(browser, csrf, **fields):
    answer = post(browser, "/plans", csrf, **fields)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def carried_out(browser, csrf, path, **fields):
    post(browser, f"{path}/start", csrf, **fields)
    deadline = time.monotonic() + 20
    while "Done:" not in (text := browser.get(path).text):
        assert "Stopped:" not in text, text
        assert time.monotonic() < deadline, text
        time.sleep(0.02)
    return text


def fields_of(page, error):
    """Return the fields of the forms in the row of an error on the page of failures."""
    row = next(part for part in page.text.split("<tr")[1:] if error in html.unescape(part))
    return dict(re.findall(r'name="(matching|queue|state|group)" value="([^"]*)"', row))


def test_buttons_for_ticked_jobs_work_without_scripts(browser, client):
    fail(client, "OSError: 1")
    page = browser.get("/jobs?queue=pins&state=failed").text
    [form] = re.findall(r'<form id="selected".*?</form>', page, re.DOTALL)
    assert form.count("<button") == 3
    assert "disabled" not in form


def test_progress_is_shown_without_scripts(browser, client):
    descriptors = fail(client, "OSError: 1")
    csrf = token_in(browser.get("/failing"))
    path = plan(browser, csrf, job=descriptors, action="delete", state="FAILED", back="/failing")
    again = '<noscript><meta http-equiv="refresh"'
    assert again not in browser.get(path).text
    asking, may_go_on = browser.app.state.dashboard.client, threading.Event()
    delete_these = asking.delete_these

    async def slowly(*args, **options):
        await asyncio.to_thread(may_go_on.wait, 20)
        return await delete_these(*args, **options)

    asking.delete_these = slowly
    post(browser, f"{path}/start", csrf)
    assert again in browser.get(path).text
    may_go_on.set()
    assert again not in carried_out(browser, csrf, path)


def test_ticked_jobs_are_deleted_as_far_as_they_have_not_changed(browser, client):
    first, second, third = fail(client, "OSError: 1", "OSError: 2", "OSError: 3")
    csrf = token_in(browser.get("/jobs?queue=pins&state=failed"))
    path = plan(browser, csrf, job=[first, second], action="delete", state="FAILED", back="//evil.example")
    assert 'href="/"' in browser.get(path).text
    client.retry_these("pins", [first])
    assert "1 job deleted, 1 had changed in the meantime" in carried_out(browser, csrf, path)
    assert set(client.lookup([first, second, third])) == {first, third}


@pytest.mark.parametrize(("attempts", "state"), [("", JobState.FAILED), ("2", JobState.PENDING)])
def test_failed_jobs_are_moved_to_another_queue_to_stay_so_or_to_be_tried_again(browser, client, attempts, state):
    client.create_queue("rescue")
    descriptors = fail(client, "OSError: 1", "OSError: 2", "KeyError: 3")
    page = browser.get("/failing")
    csrf = token_in(page)
    path = plan(browser, csrf, action="move", back="/failing", **fields_of(page, "OSError"))
    assert "Move 2 jobs?" in browser.get(path).text
    assert "<option>rescue</option>" in browser.get(path).text
    assert "<option>pins</option>" not in browser.get(path).text
    for wrong in ("pins", "nothing", ""):
        assert post(browser, f"{path}/start", csrf, to=wrong).status_code == 400
    assert client.count("pins", JobState.FAILED) == 3  # nothing has happened yet
    assert "2 jobs moved to" in carried_out(browser, csrf, path, to="rescue", attempts=attempts)
    moved = client.scan("rescue", state, future=state is JobState.PENDING).jobs
    assert len(moved) == 2
    assert list(client.lookup(descriptors)) == descriptors[2:]


def test_ticked_jobs_of_an_ordered_key_are_moved_in_their_order(browser, client):
    key = JobKey("ada", 1, is_ordered=True)
    client.enqueue_jobs("pins", [NewJob(b"%d" % number, key=key) for number in range(9)])
    client.create_queue("email")
    page = browser.get("/jobs?queue=pins&state=scheduled")
    ticked = re.findall(r'name="job" value="([^"]+)"', page.text)
    assert len(ticked) == 8, "the first does not wait"
    path = plan(browser, token_in(page), job=ticked, action="move", state="PENDING", back="/")
    assert "8 jobs moved to" in carried_out(browser, token_in(page), path, to="email")
    names = [info.descriptor for info in client.scan_all("email", JobState.PENDING, future=True)]
    there = client.lookup(names, include_body=True)
    assert [there[name].body for name in reversed(names)] == [b"%d" % number for number in range(1, 9)]


def test_ticked_pending_jobs_are_moved(browser, client, caplog):
    client.create_queue("email")
    first, second = client.enqueue_jobs("pins", [NewJob(b"1"), NewJob(b"2")])
    csrf = token_in(browser.get("/jobs?queue=pins"))
    path = plan(browser, csrf, job=[first], action="move", state="PENDING", back="/jobs?queue=pins")
    assert "Attempts" not in browser.get(path).text
    with caplog.at_level("INFO", "pinlater.audit"):
        assert "1 job moved to" in carried_out(browser, csrf, path, to="email")
    assert caplog.records[-1].getMessage() == "who=admin@127.0.0.1 action=move-many(to=email) subject=pins jobs=1"
    assert set(client.lookup([first, second])) == {second}
    assert client.count("email", JobState.PENDING, future=True) == 1


def test_plans_that_make_no_sense_are_refused(browser, client):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    csrf = token_in(browser.get("/queues/pins"))
    for fields in (
        {"action": "delete", "state": "FAILED"},
        {"action": "explode", "state": "FAILED", "job": descriptor},
        {"action": "retry", "state": "PENDING", "job": descriptor},
        {"action": "delete", "state": "ASLEEP", "job": descriptor},
        {"action": "move", "state": "SUCCEEDED", "job": descriptor},
        {"action": "delete", "state": "FAILED", "job": "nonsense"},
    ):
        assert post(browser, "/plans", csrf, **fields).status_code == 400, fields
    for group in ("gone", "12345"):
        asked = {"matching": "1", "action": "delete", "state": "failed", "group": group, "queue": "pins"}
        assert post(browser, "/plans", csrf, **asked).status_code == 400


def test_of_two_concurrent_confirmations_the_first_chooses_the_queue(browser, client):
    for queue in ("rescue", "attic"):
        client.create_queue(queue)
    descriptors = fail(client, "OSError: 1")
    csrf = token_in(browser.get("/failing"))
    path = plan(browser, csrf, job=descriptors, action="move", state="FAILED", back="/failing")
    asking = browser.app.state.dashboard.client
    queue_names, is_asked, may_go_on = asking.queue_names, threading.Event(), threading.Event()

    async def slow_names():
        asking.queue_names = queue_names
        is_asked.set()
        await asyncio.to_thread(may_go_on.wait, 20)
        return await queue_names()

    asking.queue_names = slow_names
    with ThreadPoolExecutor() as pool:
        second = pool.submit(post, browser, f"{path}/start", csrf, to="attic")
        assert is_asked.wait(20)
        text = carried_out(browser, csrf, path, to="rescue")
        may_go_on.set()
        assert second.result().headers["location"] == path
    assert browser.get(path).text == text
    assert client.count("rescue", JobState.FAILED) == 1
