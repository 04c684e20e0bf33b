"""Lists of jobs: rows that say what each job is, filters, and actions on all that match."""

import html
import re
import time
from urllib.parse import quote

import pytest

from pinlater import Client
from pinlater.model.attempts import Ack, Checkpoint
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.state import JobState
from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport
from pinlater.server.backends import body_walk
from tests.unit.dashboard.app import ADMIN, LOCKED, READER, dashboard, log_in, post, sent_by, token_in
from tests.unit.dashboard.failing import failed_status, retry_later
from tests.unit.dashboard.test_bulk_actions import carried_out, plan

SEND = b'{"job":"Send","user_id":42,"name":"<b>ada</b>"}'
RESIZE = b'{"job":"Resize","path":"/tmp/x","$progress":{"done":3,"total":4,"note":"scaling"}}'
WORKER = "worker:web1:77:5f"


def cells(page):
    """Return the texts of the cells of the first row, without tags."""
    row = page.text.partition("<tbody>")[2].partition("</tr>")[0]
    return [" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row.split("<td")[2:]]


def test_a_row_says_what_the_job_is(browser, client):
    client.enqueue_jobs("pins", [NewJob(SEND)])
    page = browser.get("/jobs?queue=pins")
    assert "Waiting since" in page.text
    assert 'user_id=42, name="<b>ada' not in page.text
    assert "user_id=42, name=&#34;&lt;b&gt;ada&lt;/b&gt;&#34;" in page.text
    assert cells(page)[0].startswith('class="job"> Send user_id=42')


def test_a_retry_says_when_and_why(browser, client):
    retry_later(client, "OSError: no route", body=SEND, seconds=600)
    page = browser.get("/jobs?queue=pins&state=retrying")
    assert "OSError: no route" in page.text
    assert re.search(r"in (10 min|9 min)", page.text)
    assert "1 of 5" in cells(page)[2]


def test_what_failed_before_and_is_due_by_its_schedule_or_a_sleep_is_no_retry(browser, client):
    now_ms = int(time.time() * 1000)
    status = failed_status("LookupError: no rate")
    client.enqueue_jobs("pins", [NewJob(SEND, run_after_ms=now_ms + 600_000, status=status)])
    page = browser.get("/jobs?queue=pins&state=scheduled")
    assert "LookupError: no rate" in page.text
    assert not cells(page)[1].endswith("retry")


def test_the_list_of_a_key_names_the_jobs_that_have_it_now(browser, client):
    key = JobKey("ada", max_running=1)
    names = client.enqueue_jobs("pins", [NewJob(SEND, key=key), NewJob(RESIZE, key=key), NewJob(SEND, key=JobKey("b"))])
    assert "the key now" not in browser.get("/jobs?queue=pins&key=ada").text
    [job] = client.dequeue_jobs("pins", 1)
    assert job.descriptor == names[0]
    page = browser.get("/jobs?queue=pins&key=ada")
    assert f'This job has the key now: <a href="/job?id={quote(names[0])}">Send</a>, since' in page.text
    assert cells(page)[0].startswith('class="job"> Resize')
    tabs = page.text.partition('aria-label="States"')[2].partition("</nav>")[0]
    shown = [" ".join(one.split()) for one in re.findall(r"<a [^>]*>([^<]*)", tabs)]
    assert shown == ["waiting", "running"], "numbers of a state are of all keys, and those that wait are in several"
    runs = browser.get("/jobs?queue=pins&key=ada&state=running")
    assert cells(runs)[0].startswith('class="job"> Send')
    assert "the key now" not in runs.text
    assert 'href="/jobs?queue=pins&amp;key=ada">ada</a>' in browser.get(f"/job?id={names[1]}").text


def test_a_running_job_says_since_when_and_how_far(browser, client):
    [name] = client.enqueue_jobs("pins", [NewJob(b"{}")])
    [job] = client.dequeue_jobs("pins", 1)
    client.checkpoint("pins", [Checkpoint(name, job.claim, RESIZE)])
    page = browser.get("/jobs?queue=pins&state=running")
    assert "or earlier" in cells(page)[1]
    assert cells(page)[-1].endswith("75 % · scaling")


def test_a_job_that_has_succeeded_says_when_and_how_long_it_ran(browser, client):
    [name] = client.enqueue_jobs("pins", [NewJob(SEND, attempts=3)])
    [job] = client.dequeue_jobs("pins", 1)
    client.ack("pins", [Ack(name, job.claim, run_ms=1500)])
    page = browser.get("/jobs?queue=pins&state=succeeded")
    assert "took 1.5 s" in cells(page)[1]
    assert cells(page)[2].endswith("1 of 3")
    assert "1.5 s" in browser.get(f"/job?id={name}").text


def test_the_start_is_exact_if_the_worker_reports_it(local_server, client):
    with Client(local_server.address, source=WORKER) as worker, dashboard(local_server.address) as browser:
        [name] = client.enqueue_jobs("pins", [NewJob(SEND)])
        worker.dequeue_jobs("pins", 1)
        since_ms = int(time.time() * 1000) - 7_200_000
        process = WorkerProcess(77, "default", ["pins"], jobs=[RunningJob(name, since_ms)])
        worker.report_worker(WorkerReport("web1-1", "web1", 1, processes=[process]), 60.0)
        assert cells(browser.get("/jobs?queue=pins&state=running"))[1].endswith("2 h ago")


def test_jobs_are_filtered_by_class_and_argument(browser, client):
    client.enqueue_jobs("pins", [NewJob(SEND), NewJob(RESIZE), NewJob(b'{"user_id":42}')])
    assert browser.get("/jobs?queue=pins&class=Send").text.count('class="job-name"') == 1
    assert browser.get("/jobs?queue=pins&argument=user_id%3D42").text.count('class="job-name"') == 2
    assert browser.get("/jobs?queue=pins&class=Send&argument=user_id%3D42").text.count('class="job-name"') == 1
    assert browser.get("/jobs?queue=pins&class=Resize&argument=user_id%3D42").text.count('class="job-name"') == 0
    assert browser.get("/jobs?queue=pins&argument=/ada|tmp/").text.count('class="job-name"') == 2


def test_a_search_says_how_far_it_came_and_goes_on_from_there(browser, client, monkeypatch):
    monkeypatch.setattr(body_walk, "MAX_PAGES", 3)
    monkeypatch.setattr(body_walk, "FIRST_PAGE_JOBS", 10)
    monkeypatch.setattr(body_walk, "NEXT_PAGE_JOBS", 10)
    client.enqueue_jobs("pins", [NewJob(SEND), *[NewJob(RESIZE)] * 74])
    page = browser.get("/jobs?queue=pins&class=Send")
    texts, paths = [], []
    while link := re.search(r'rel="next" href="([^"]*)">([^<]*)<', page.text):
        assert link[2] == "Go on from there"
        assert "Nothing found so far" in page.text
        texts.append(_looked_at(page))
        paths.append(html.unescape(link[1]))
        page = browser.get(paths[-1])
    assert len(paths) >= 2
    assert texts == [f"looked at {10 * (at + 1)} of about 75 jobs" for at in range(len(texts))]
    assert _looked_at(page) == "looked at 75 of 75 jobs"
    assert page.text.count('class="job-name"') == 1
    previous = html.unescape(re.search(r'rel="prev" href="([^"]*)"', page.text)[1])
    assert _looked_at(browser.get(previous)) == texts[-1]
    assert browser.get("/jobs?queue=pins&class=Send&from=1.2!x").status_code == 400


def _looked_at(page):
    return re.search("looked at [^<,]* jobs", page.text)[0]


def test_arguments_are_hidden_with_bodies(local_server, client):
    client.enqueue_jobs("pins", [NewJob(SEND), NewJob(b"hunter2")])
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        log_in(browser, READER)
        page = browser.get("/jobs?queue=pins")
        assert "Send" in page.text
        assert "user_id" not in page.text
        assert "hunter2" not in page.text
        assert browser.get("/jobs?queue=pins&argument=hunter2").status_code == 403
        assert browser.get("/jobs?queue=pins&class=Send").status_code == 403


def test_progress_is_hidden_with_bodies(local_server, client):
    client.enqueue_jobs("pins", [NewJob(RESIZE)])
    client.dequeue_jobs("pins", 1)
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        for password in (READER, ADMIN):
            log_in(browser, password)
            page = browser.get("/jobs?queue=pins&state=running")
            assert "Resize" in page.text
            assert "scaling" not in page.text


@pytest.mark.parametrize("action", ["retry", "move", "delete"])
def test_all_jobs_that_match_are_acted_upon(browser, client, caplog, action):
    names = client.enqueue_jobs("pins", [NewJob(SEND, attempts=1)] * 130 + [NewJob(RESIZE, attempts=1)])
    claims = client.dequeue_jobs("pins", 131)
    client.ack("pins", failed=[Ack(job.descriptor, job.claim, "no") for job in claims])
    client.create_queue("email")
    list_path = "/jobs?queue=pins&state=failed&class=Send"
    csrf = token_in(browser.get(list_path))
    fields = {"queue": "pins", "state": "failed", "class": "Send", "matching": "1", "back": list_path}
    path = plan(browser, csrf, action=action, **fields)
    assert "130 jobs?" in browser.get(path).text
    assert "all failed jobs, class Send" in browser.get(path).text
    with caplog.at_level("INFO", "pinlater.audit"):
        assert "130 jobs" in carried_out(browser, csrf, path, to="email", attempts="1")
    assert "jobs=130" in caplog.text
    assert client.count("pins", JobState.FAILED) == 1
    left = {"retry": 130, "move": 0, "delete": 0}[action]
    assert client.count("pins", JobState.PENDING) == left
    assert len(names) == 131


def test_no_other_jobs_than_those_listed_are_acted_upon(browser, client):
    texts = "10\N{NO-BREAK SPACE}km", "10 km"
    client.enqueue_jobs("pins", [NewJob(f'{{"job":"Send","way":"{text}"}}'.encode()) for text in texts])
    page = browser.get("/jobs", params={"queue": "pins", "argument": texts[0]})
    assert page.text.count('class="job-name"') == 1
    sent = sent_by(page, "/plans", "matching")
    path = post(browser, "/plans", **sent, action="delete").headers["location"]
    assert "1 job" in carried_out(browser, token_in(page), path)
    [left] = client.scan("pins", JobState.PENDING).jobs
    assert client.lookup([left.descriptor], include_body=True)[left.descriptor].body.decode().count(texts[1]) == 1


def test_all_scheduled_jobs_are_run_now(browser, client):
    later = int(time.time() * 1000) + 3_600_000
    client.enqueue_jobs("pins", [NewJob(SEND, run_after_ms=later)] * 3)
    page = browser.get("/jobs?queue=pins&state=scheduled")
    assert "Run now…" in page.text
    fields = {"queue": "pins", "state": "scheduled", "matching": "1", "back": "/"}
    path = plan(browser, token_in(page), action="run-now", **fields)
    assert "Run 3 jobs now?" in browser.get(path).text
    assert "3 jobs due now" in carried_out(browser, token_in(page), path)
    assert len(client.dequeue_jobs("pins", 10)) == 3


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"queue": "pins", "state": "failed", "action": "delete"}, "No job matches any more"),
        ({"queue": "nothing", "state": "failed", "action": "delete"}, "no queue nothing"),
        ({"queue": "pins", "state": "asleep", "action": "delete"}, "no state asleep"),
        ({"queue": "pins", "state": "running", "action": "delete"}, "cannot be deleted"),
        ({"queue": "pins", "state": "running", "action": "run-now"}, "not due yet"),
        ({"queue": "pins", "state": "succeeded", "action": "cancel"}, "have not ended"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(browser, client, fields, problem):
    csrf = token_in(browser.get("/queues/pins"))
    answer = post(browser, "/plans", csrf, matching="1", back="/", **fields)
    assert answer.status_code in {400, 404}
    assert problem in answer.text


def test_readers_do_not_act(local_server, client):
    client.enqueue_jobs("pins", [NewJob(SEND)])
    with dashboard(local_server.address, **LOCKED) as browser:
        log_in(browser, ADMIN)
        assert "Delete…" in browser.get("/jobs?queue=pins").text
        browser.cookies.clear()
        log_in(browser, READER)
        page = browser.get("/jobs?queue=pins")
        assert "Delete…" not in page.text
        assert "user_id=42" in page.text


def test_lists_are_sorted_and_actions_keep_the_order(browser, client):
    names = client.enqueue_jobs("pins", [NewJob(b"%d" % number, run_after_ms=1000 + number) for number in range(60)])
    newest = browser.get("/jobs?queue=pins")
    oldest = browser.get("/jobs?queue=pins&order=oldest")
    order = [re.findall(r'name="job" value="([^"]+)"', page.text) for page in (newest, oldest)]
    assert order == [names[:9:-1], names[:50]]
    assert "order=oldest" in oldest.text.partition('rel="next"')[2].partition(">")[0]
    client.create_queue("email")
    fields = {"queue": "pins", "state": "pending", "matching": "1", "back": "/"}
    path = plan(browser, token_in(newest), action="move", **fields)
    carried_out(browser, token_in(newest), path, to="email")
    moved = client.scan("email", JobState.PENDING, future=True, limit=60).jobs
    bodies = client.lookup([job.descriptor for job in moved], include_body=True)
    in_order = sorted(bodies, key=lambda name: int(name.rpartition(":")[2]))
    assert [int(bodies[name].body) for name in in_order] == list(range(60))
    assert [job.descriptor for job in client.scan("pins", JobState.PENDING).jobs] == []
