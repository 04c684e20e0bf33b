"""What the dashboard tells jobs, and shows of what they have said: cancelling, events, results, parents."""

import re
import time

import pytest

from pinlater.jobs.events import event_name
from pinlater.jobs.waiting import ENDLESS_MS
from pinlater.model.attempts import Ack, Checkpoint
from pinlater.model.jobs import NewJob
from pinlater.model.messages import MessageWait, Parent
from pinlater.model.state import JobState
from tests.unit.dashboard.app import dashboard, post, sent_by, token_in

LATER = 2**53


def sleeping(client, *waits, until_ms=LATER):
    """Enqueue a job, and let it wait for messages; return its descriptor."""
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    [job] = client.dequeue_jobs("pins", 1)
    asleep = Checkpoint(descriptor, job.claim, move_to_pending=True, run_after_ms=until_ms, waits_for=list(waits))
    client.checkpoint("pins", [asleep])
    return descriptor


def done(browser, answer):
    return browser.get(answer.headers["location"]).text


def test_a_waiting_job_is_cancelled(browser, client, caplog):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    page = browser.get(f"/job?id={descriptor}")
    assert "Cancel job" in page.text
    with caplog.at_level("INFO", "pinlater.audit"):
        shown = done(browser, post(browser, "/job/cancel", token_in(page), job=descriptor))
    assert '<span class="badge plain">cancelled</span>' in shown
    assert "Cancel job" not in shown
    assert "on the dashboard" in shown
    assert f"action=cancel subject={descriptor} jobs=1" in caplog.text
    info = client.lookup([descriptor])[descriptor]
    assert (info.state, info.is_cancelled) == (JobState.FAILED, True)


def test_a_running_job_is_asked_to_stop(browser, client):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    client.dequeue_jobs("pins", 1)
    csrf = token_in(browser.get(f"/job?id={descriptor}"))
    assert "asked to stop" in done(browser, post(browser, "/job/cancel", csrf, job=descriptor))
    assert "asked to stop" in browser.get("/jobs?queue=pins&state=running").text


def test_a_job_that_has_ended_is_not_cancelled(browser, client):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    [job] = client.dequeue_jobs("pins", 1)
    client.ack("pins", [Ack(descriptor, job.claim)])
    page = browser.get(f"/job?id={descriptor}")
    assert "Cancel job" not in page.text
    shown = done(browser, post(browser, "/job/cancel", token_in(page), job=descriptor))
    assert "Nothing was changed" in shown


def test_ticked_jobs_are_cancelled(browser, client):
    first, second = client.enqueue_jobs("pins", [NewJob(b"{}")] * 2)
    csrf = token_in(browser.get("/jobs?queue=pins&state=pending"))
    plan = post(browser, "/plans", csrf, job=[first, second], action="cancel", state="PENDING", back="/")
    path = plan.headers["location"]
    assert "Cancel 2 jobs?" in browser.get(path).text
    post(browser, f"{path}/start", csrf)
    text = browser.get(path).text
    while "Done:" not in text:
        text = browser.get(path).text
    assert "2 jobs cancelled or asked to stop" in text
    assert client.count("pins", JobState.FAILED) == 2
    assert post(browser, "/plans", csrf, job=[first], action="cancel", state="FAILED").status_code == 400


def test_a_job_that_waits_without_a_limit_is_not_due_in_a_thousand_years(browser, client):
    descriptor = sleeping(client, MessageWait(event_name("approval"), 1), until_ms=ENDLESS_MS)
    page = browser.get(f"/job?id={descriptor}").text
    assert "<dt>Due</dt><dd>not by itself</dd>" in page
    assert "so far</td>" in page
    listed = browser.get("/jobs?queue=pins&state=scheduled").text
    assert "waits for event approval" in listed
    for text in (page, listed, browser.get(f"/job/edit?id={descriptor}").text):
        assert "in 35" not in text, "days"


def test_the_timeline_says_until_when_a_new_job_waits(browser, client):
    hour = int(time.time() * 1000) + 3_600_000
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}", run_after_ms=hour)])
    assert re.search("until <time [^>]*>in 59 min", browser.get(f"/job?id={descriptor}").text)


def test_an_event_is_sent_to_a_job_that_waits_for_it(browser, client, caplog):
    descriptor = sleeping(client, MessageWait(event_name("approval"), 1))
    page = browser.get(f"/job?id={descriptor}")
    assert "event approval" in page.text
    assert 'value="approval"' in page.text
    assert "waits for event approval" in browser.get("/jobs?queue=pins&state=scheduled").text
    csrf = token_in(page)
    with caplog.at_level("INFO", "pinlater.audit"):
        answer = post(browser, "/job/send", csrf, job=descriptor, event="approval", value='{"by": "ada"}')
    assert "The event was sent" in done(browser, answer)
    assert f"action=send(event=approval) subject={descriptor} jobs=1" in caplog.text
    [message] = client.read_messages(descriptor, event_name("approval"))
    assert message.payload == b'{"by":"ada"}'
    [job] = client.dequeue_jobs("pins", 1)
    assert job.descriptor == descriptor
    client.ack("pins", [Ack(descriptor, job.claim)])
    assert "Nothing was changed" in done(browser, post(browser, "/job/send", csrf, job=descriptor, event="approval"))


def test_a_second_click_sends_no_second_event(browser, client):
    descriptor = sleeping(client, MessageWait(event_name("approval"), 1))
    sent = sent_by(browser.get(f"/job?id={descriptor}"), "/job/send", "event") | {"value": "1"}
    for _ in range(2):
        assert "The event was sent" in done(browser, post(browser, "/job/send", **sent))
    assert len(client.read_messages(descriptor, event_name("approval"))) == 1
    post(browser, "/job/send", **sent | {"value": "2"})
    assert len(client.read_messages(descriptor, event_name("approval"))) == 2


@pytest.mark.parametrize(
    ("event", "value", "problem"),
    [("", "1", "needs a name"), ("approval", "ada", "not JSON"), ("a", "NaN", "not JSON"), ("a", "1e999", "not JSON")],
)
def test_an_event_that_makes_no_sense_is_refused(browser, client, event, value, problem):
    descriptor = sleeping(client, MessageWait(event_name("approval"), 1))
    csrf = token_in(browser.get(f"/job?id={descriptor}"))
    answer = post(browser, "/job/send", csrf, job=descriptor, event=event, value=value)
    assert answer.status_code == 400
    assert problem in answer.text


def test_what_a_job_returned_and_who_has_called_it_are_shown(browser, client):
    parent = sleeping(client, MessageWait("call/0/resize", 3))
    page = browser.get(f"/job?id={parent}").text
    assert "3 jobs of call resize" in page
    assert "Send event" not in page, "it waits for none"
    [child] = client.enqueue_jobs("pins", [NewJob(b"{}", parent=Parent(parent, "call/0/resize", 1))])
    [job] = client.dequeue_jobs("pins", 1)
    assert "job 2 of call resize" in browser.get(f"/job?id={child}").text
    client.ack("pins", [Ack(child, job.claim, result=b'{"width": "<b>9</b>"}')])
    shown = browser.get(f"/job?id={child}").text
    assert "&lt;b&gt;9&lt;/b&gt;" in shown
    assert f"/job?id={parent.replace(':', '%3A')}" in shown or f"/job?id={parent}" in shown


def test_results_are_hidden_with_bodies(local_server, client):
    [descriptor] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    [job] = client.dequeue_jobs("pins", 1)
    client.ack("pins", [Ack(descriptor, job.claim, result=b'"hunter2"')])
    with dashboard(local_server.address, hides_bodies=True) as browser:
        page = browser.get(f"/job?id={descriptor}")
        assert "hunter2" not in page.text
        assert "hunter2" in post(browser, "/job/body", token_in(page), job=descriptor).text
