"""Acting on one job: edited and retried, with another priority or time, copied; and a new one from a form."""

import asyncio
import json
import shlex
import time

import msgspec
import pytest

from pinlater.client.async_client import AsyncClient
from pinlater.dashboard import whole_jobs
from pinlater.dashboard.app_state import AppState
from pinlater.dashboard.body_form import BodyField, fields_of, own_fields, read_body
from pinlater.dashboard.command_line import enqueue_command
from pinlater.dashboard.forms import Form, RequestRefused
from pinlater.dashboard.replacement import replace_job
from pinlater.jobs.body_schemas import job_class
from pinlater.jobs.job import Job
from pinlater.model.attempts import Ack, Checkpoint
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.keys import JobKey
from pinlater.model.messages import Message, Parent
from pinlater.model.state import JobState
from pinlater.model.unique import UniqueRule
from pinlater.model.workers import WorkerReport
from tests.unit.dashboard.app import ADMIN, LOCKED, READER, dashboard, log_in, post, sent_by, token_in
from tests.unit.dashboard.failing import fail

UNCHANGED = {"priority": "1", "attempts": "3", "has_body": "1", "body": "{}"}
SEND = b'{"job":"Send","user_id":42,"name":"ada"}'


class Send(Job, queue="pins", attempts=7):
    user_id: int
    name: str = "ada"
    tags: list[str] = msgspec.field(default_factory=list)
    urgent: bool = False

    def run(self, context):
        pass


def failed(client, body=SEND):
    [name] = fail(client, "OSError: no", body=body)
    return name


def pending(client):
    return client.enqueue_jobs("pins", [NewJob(SEND)])[0]


def edited(browser, name, **changes):
    """Send the form of the edit page with changes; return the answer."""
    page = browser.get(f"/job/edit?id={name}")
    assert page.status_code == 200, page.text
    state = page.text.partition('name="state" value="')[2].partition('"')[0]
    fields = {"by_fields": "1", "kind": ["number:user_id", "text:name"], "field-user_id": "42", "field-name": "ada"}
    return post(
        browser,
        "/job/replace",
        token_in(page),
        **({"job": name, "state": state, "priority": "1", "attempts": "3"} | fields | changes),
    )


def only_job(client):
    states = (JobState.PENDING, JobState.FAILED, JobState.SUCCEEDED)
    scans = [client.scan("pins", state, future=is_future) for state in states for is_future in (False, True)]
    [name] = {job.descriptor for scan in scans for job in scan.jobs}
    return client.lookup([name], include_body=True)[name]


def test_a_failed_job_is_edited_and_retried(browser, client, caplog):
    name = failed(client)
    with caplog.at_level("INFO", "pinlater.audit"):
        answer = edited(browser, name, **{"field-user_id": "43", "field-name": "Ōsu"})
    info = only_job(client)
    assert answer.headers["location"].startswith(f"/job?id={info.descriptor}")
    assert "edited job is stored" in browser.get(answer.headers["location"]).text
    assert json.loads(info.body) == {"job": "Send", "user_id": 43, "name": "Ōsu"}
    assert (info.state, info.attempts_allowed) == (JobState.PENDING, 3)
    assert info.run_after_ms <= time.time() * 1000 + 1000
    assert f"edited from {name}" in info.status
    assert f"edit(to={info.descriptor})" in caplog.text
    assert [job.descriptor for job in client.dequeue_jobs("pins", 5)] == [info.descriptor]


def test_priority_and_time_are_changed(browser, client):
    later = int(time.time() * 1000) + 3_600_000
    [name] = client.enqueue_jobs("pins", [NewJob(SEND, run_after_ms=later, key=JobKey("ada"))])
    edited(browser, name, priority="2")
    info = only_job(client)
    assert ":p2:" in info.descriptor
    assert info.run_after_ms == later
    assert info.key == JobKey("ada")
    edited(browser, info.descriptor, priority="2", delay="3", unit="days")
    assert abs(only_job(client).run_after_ms - time.time() * 1000 - 3 * 86_400_000) < 60_000
    edited(browser, only_job(client).descriptor, priority="2", delay="0.5", unit="seconds")
    time.sleep(max(only_job(client).run_after_ms / 1000 - time.time(), 0) + 0.1)
    assert len(client.dequeue_jobs("pins", 1)) == 1


def test_a_job_of_which_only_the_time_changes_stays_the_same(browser, client):
    [name] = client.enqueue_jobs("pins", [NewJob(SEND[:-1] + b',"$steps":{"a":1}}', attempts=3)])
    answer = edited(browser, name, delay="2", unit="hours")
    assert answer.headers["location"].startswith(f"/job?id={name}")
    info = only_job(client)
    assert own_fields(info.body)[2] == {"$steps": {"a": 1}}
    assert info.run_after_ms > time.time() * 1000 + 3_600_000


@pytest.mark.parametrize("unique", [None, "ada"])
@pytest.mark.parametrize("is_later", [False, True])
def test_a_waiting_job_that_is_saved_as_it_is_does_not_change(browser, client, unique, is_later):
    due_ms = int(time.time() * 1000) + 3_600_000 if is_later else None
    [name] = client.enqueue_jobs("pins", [NewJob(SEND, run_after_ms=due_ms, attempts=3, unique=unique)])
    before = only_job(client)
    answer = edited(browser, name)
    assert answer.headers["location"] == f"/job?id={name}&done=save"
    assert "keeps its descriptor" in browser.get(answer.headers["location"]).text
    assert only_job(client) == before


def test_the_form_says_when_the_steps_of_a_waiting_job_are_kept(browser, client):
    body = SEND[:-1] + b',"$steps":{"a":1}}'
    [name] = client.enqueue_jobs("pins", [NewJob(body, attempts=3)])
    said = "without this the job begins anew if you change more than its time"
    assert said in browser.get(f"/job/edit?id={name}").text
    edited(browser, name)
    assert only_job(client).body == body
    edited(browser, name, **{"field-user_id": "43"})
    assert own_fields(only_job(client).body)[2] == {}
    client.delete_these("pins", [only_job(client).descriptor], JobState.PENDING)
    assert said not in browser.get(f"/job/edit?id={failed(client, body)}").text


def test_a_job_that_a_worker_takes_meanwhile_is_left_alone(browser, client):
    [name] = client.enqueue_jobs("pins", [NewJob(SEND)])
    page = browser.get(f"/job/edit?id={name}")
    client.dequeue_jobs("pins", 1)
    answer = post(browser, "/job/replace", token_in(page), job=name, state="PENDING", **UNCHANGED)
    assert answer.status_code == 409
    assert "nothing was changed" in answer.text
    assert client.count("pins", JobState.PENDING) + client.count("pins", JobState.PENDING, future=True) == 0
    assert client.lookup([name])[name].state is JobState.IN_PROGRESS


def test_a_second_click_changes_nothing_more(browser, client):
    name = failed(client)
    first = edited(browser, name, delay="1", unit="hours")
    csrf = token_in(browser.get("/queues/pins"))
    again = post(browser, "/job/replace", csrf, job=name, state="FAILED", **UNCHANGED)
    assert again.status_code == 404
    assert first.headers["location"].startswith(f"/job?id={only_job(client).descriptor}")


def test_a_job_with_a_unique_key_is_changed_in_one_step(browser, client):
    later = int(time.time() * 1000) + 3_600_000
    [name] = client.enqueue_jobs("pins", [NewJob(SEND, run_after_ms=later, unique="ada")])
    edited(browser, name, **{"field-user_id": "43"})
    info = only_job(client)
    assert (info.descriptor, info.unique, json.loads(info.body)["user_id"]) == (name, "ada", 43)
    assert info.run_after_ms == later
    assert edited(browser, name, priority="2").status_code == 409


def retrying_with_unique_key(client, **rule):
    unique_rule = UniqueRule(**rule) if rule else None
    client.enqueue_jobs("pins", [NewJob(SEND, attempts=5, unique="ada", unique_rule=unique_rule)])
    [job] = client.dequeue_jobs("pins", 1)
    client.ack("pins", failed=[Ack(job.descriptor, job.claim)])
    return job.descriptor


@pytest.mark.parametrize("changes", [{"attempts": "7"}, {"field-user_id": "43", "attempts": "7"}])
def test_a_retrying_job_with_a_unique_key_gives_it_to_the_edited_one(browser, client, changes):
    name = retrying_with_unique_key(client)
    answer = edited(browser, name, **changes)
    info = only_job(client)
    assert answer.headers["location"].startswith(f"/job?id={info.descriptor}")
    assert (info.unique, info.attempts_remaining) == ("ada", 7)
    assert json.loads(info.body)["user_id"] == int(changes.get("field-user_id", 42))
    assert client.enqueue_jobs("pins", [NewJob(SEND, unique="ada")]) == [info.descriptor]
    assert [job.descriptor for job in client.dequeue_jobs("pins", 5)] == [info.descriptor]


def test_a_job_that_has_begun_is_left_alone_while_its_unique_key_is_taken_for_a_period(browser, client):
    name = retrying_with_unique_key(client, period_ms=3_600_000)
    due_ms = client.lookup([name])[name].run_after_ms
    refused = edited(browser, name, attempts="7")
    assert (refused.status_code, "for a period" in refused.text) == (409, True)
    info = only_job(client)
    assert (info.descriptor, info.unique, info.attempts_remaining) == (name, "ada", 4)
    assert info.run_after_ms == due_ms


def test_a_job_with_a_unique_key_that_a_worker_takes_meanwhile_keeps_it(local_server, client):
    name = retrying_with_unique_key(client)
    old = client.lookup([name], include_body=True)[name]
    client.dequeue_jobs("pins", 1)

    async def replace():
        async with AsyncClient(local_server.address) as asynchronous:
            return await replace_job(asynchronous, old, NewJob(b"{}", run_after_ms=old.run_after_ms))

    assert asyncio.run(replace()) is None
    info = client.lookup([name])[name]
    assert (info.state, info.unique) == (JobState.IN_PROGRESS, "ada")
    assert client.count("pins", JobState.PENDING) + client.count("pins", JobState.PENDING, future=True) == 0


class ClaimsMeanwhile(AsyncClient):
    """A client beside which a worker takes what is due just before the old job is deleted."""

    claimed = ()

    async def delete_these(self, queue, *args, **options):
        self.claimed = await self.dequeue_jobs(queue, 5)
        return await super().delete_these(queue, *args, **options)


def test_the_new_job_is_held_back_by_the_clock_of_the_store(local_server, client):
    name = failed(client)
    local_server.advance(3600)
    old = client.lookup([name], include_body=True)[name]

    async def replace():
        async with ClaimsMeanwhile(local_server.address) as asynchronous:
            return await replace_job(asynchronous, old, NewJob(SEND)), asynchronous.claimed

    new, claimed = asyncio.run(replace())
    assert claimed == []
    assert [job.descriptor for job in client.dequeue_jobs("pins", 5)] == [new]


def test_finished_steps_are_kept_on_demand(browser, client):
    messages_of = b'"$calls":{"part":{"count":1,"batch":1}},"$events":{"paid":{"here":1}}'
    body = b'{"job":"Send","user_id":42,"name":"ada","$steps":{"a":1},"$policy":{"timeout":5.0},' + messages_of + b"}"
    name = failed(client, body)
    edited(browser, name)
    assert own_fields(only_job(client).body)[2] == {"$policy": {"timeout": 5.0}}
    client.delete_these("pins", [only_job(client).descriptor], JobState.PENDING)
    edited(browser, failed(client, body), keeps_steps="on")
    assert own_fields(only_job(client).body)[2].keys() == {"$steps", "$policy"}, "the rest was deleted with it"


def failed_with_results_outside(client, results):
    """Return a failed job whose body says that the results of this many steps are stored beside it."""
    client.enqueue_jobs("pins", [NewJob(SEND, attempts=1)])
    [job] = client.dequeue_jobs("pins", 1)
    messages = [
        Message("steps/0", str(number), msgspec.json.encode({"steps": {f"load#{number}": number}}))
        for number in range(results)
    ]
    for start in range(0, results, 1000):
        body = SEND.replace(b"Send", b"Send$kept")[:-1] + b',"$kept":%d}' % results
        client.checkpoint("pins", [Checkpoint(job.descriptor, job.claim, body, keeps=messages[start : start + 1000])])
    client.ack("pins", failed=[Ack(job.descriptor, job.claim)])
    return job.descriptor


def test_results_of_steps_that_are_stored_beside_the_body_are_kept(browser, client):
    results = 1005  # more than a page of messages
    edited(browser, failed_with_results_outside(client, results), **{"field-user_id": "43"}, keeps_steps="on")
    changed = json.loads(only_job(client).body)
    assert (changed["job"], changed["user_id"], "$kept" in changed) == ("Send", 43, False)
    assert changed["$steps"] == {f"load#{number}": number for number in range(results)}


def test_a_job_is_not_edited_without_the_results_that_it_is_to_keep(browser, client, monkeypatch):
    name = failed_with_results_outside(client, 5)
    monkeypatch.setattr(whole_jobs, "_MOST_BYTES", 20)
    refused = edited(browser, name, keeps_steps="on")
    assert (refused.status_code, "begin anew" in refused.text) == (409, True)
    assert only_job(client).descriptor == name
    edited(browser, name)
    assert only_job(client).body == SEND


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda client: NewJob(SEND, parent=Parent(pending(client), "call/0/x", 0)), "waits for the end"),
        (lambda _: NewJob(SEND, key=JobKey("ada", 1, is_ordered=True)), "run in order"),
    ],
)
def test_jobs_that_others_depend_on_are_not_edited(browser, client, make, problem):
    [name] = client.enqueue_jobs("pins", [make(client)])
    answer = browser.get(f"/job/edit?id={name}")
    assert answer.status_code == 409
    assert problem in answer.text
    assert "Edit…" not in browser.get(f"/job?id={name}").text


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"field-user_id": "x"}, "user_id is not JSON"),
        ({"field-user_id": "true"}, "user_id must be a number"),
        ({"field-user_id": ""}, "user_id has no value"),
        ({"field-user_id": "NaN"}, "user_id is not JSON"),
        ({"priority": "9"}, "Priority must be"),
        ({"attempts": "0"}, "Attempts must be"),
        ({"by_fields": "", "body": "[]"}, "not a JSON object"),
        ({"by_fields": "", "body": '{"$steps":{}}'}, "PinLater"),
    ],
)
def test_values_that_do_not_fit_are_refused(browser, client, changes, problem):
    name = failed(client)
    answer = edited(browser, name, **changes)
    assert answer.status_code == 400
    assert problem in answer.text
    assert only_job(client).descriptor == name


def test_a_body_that_is_no_json_is_edited_as_text_and_bytes_not_at_all(browser, client):
    name = failed(client, b"user 42")
    edited(browser, name, by_fields="", has_body="1", body="user 43")
    assert only_job(client).body == b"user 43"
    client.dequeue_jobs("pins", 1)
    name = failed(client, b"\xff\x00")
    assert "is no text" in browser.get(f"/job/edit?id={name}").text
    edited(browser, name, by_fields="", priority="2")
    assert next(iter(client.dequeue_jobs("pins", 5))).body == b"\xff\x00"


ODD_TEXTS = [
    "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}",
    "\N{ARABIC LETTER MEEM}\N{ZERO WIDTH NON-JOINER}\N{ARABIC LETTER MEEM}",
    "10\N{NO-BREAK SPACE}km",
    "\nSecond line,\tand a tab",
    "two\r\nlines",
    "a\0b\x7f\x1b[0m",
    "\"quoted\" 'text' & <b>",
    " ",
    "",
]


@pytest.mark.parametrize("text", ODD_TEXTS)
@pytest.mark.parametrize("is_odd_name", [False, True])
def test_what_is_not_edited_stays_as_it_is(browser, client, text, is_odd_name):
    body = {"job": "Send", text if is_odd_name else "name": text, "texts": {"one": text}}
    descriptor = failed(client, json.dumps(body).encode())
    sent = sent_by(browser.get(f"/job/edit?id={descriptor}"), "/job/replace", "attempts")
    answer = post(browser, "/job/replace", **sent | {"attempts": "9"})
    assert answer.status_code == 303, answer.text
    info = only_job(client)
    assert (info.attempts_allowed, json.loads(info.body)) == (9, body)


def test_an_empty_text_that_is_not_edited_does_not_become_the_default(browser, client):
    report_classes(client)
    descriptor = failed(client, b'{"job":"Send","user_id":42,"name":""}')
    sent = sent_by(browser.get(f"/job/edit?id={descriptor}"), "/job/replace", "attempts")
    post(browser, "/job/replace", **sent | {"attempts": "9"})
    info = only_job(client)
    assert (info.attempts_allowed, json.loads(info.body)["name"]) == (9, "")


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_body_of_text_that_is_not_edited_stays_as_it_is(browser, client, text):
    descriptor = failed(client, f"{text}!".encode())
    sent = sent_by(browser.get(f"/job/edit?id={descriptor}"), "/job/replace", "attempts")
    post(browser, "/job/replace", **sent | {"attempts": "9"})
    info = only_job(client)
    assert (info.attempts_allowed, info.body) == (9, f"{text}!".encode())


@pytest.mark.parametrize("are_workers_gone", [False, True])
def test_fields_that_a_job_does_not_have_are_not_filled_in_when_others_are_edited(
    browser, client, are_workers_gone, monkeypatch
):
    report_classes(client)
    descriptor = failed(client, b'{"job":"Send","tags":["a"]}')
    page = browser.get(f"/job/edit?id={descriptor}")
    for hint in ("integer, not in this job<", "boolean, not in this job, by default false<"):
        assert hint in page.text
    sent = sent_by(page, "/job/replace", "attempts")
    if are_workers_gone:
        monkeypatch.setattr(AppState, "job_classes", no_classes)
    answer = post(browser, "/job/replace", **sent | {"field-tags": '["b"]'})
    assert answer.status_code == 303, answer.text
    assert json.loads(only_job(client).body) == {"job": "Send", "tags": ["b"]}


async def no_classes(_, __):
    return []


def report_classes(client):
    client.report_worker(WorkerReport("w1", "web1", 1, classes=[job_class(Send)]), 60.0)


def test_a_job_is_enqueued_from_the_fields_of_its_class(browser, client, caplog):
    report_classes(client)
    page = browser.get("/enqueue?queue=pins")
    for expected in ("user_id", "integer", "tags", "urgent", 'value="7"', 'value="ada"'):
        assert expected in page.text
    kinds = ["number:user_id", "text?:name", "json?:tags", "boolean?:urgent"]
    fields = {"queue": "pins", "class": "Send", "by_fields": "1", "kind": kinds, "priority": "2", "attempts": "7"}
    values = {"field-user_id": "5", "field-name": "", "field-tags": '["a"]', "field-urgent": "true", "unique": "five"}
    with caplog.at_level("INFO", "pinlater.audit"):
        post(browser, "/enqueue", token_in(page), **fields, **values)
    info = only_job(client)
    assert json.loads(info.body) == {"job": "Send", "user_id": 5, "tags": ["a"], "urgent": True}
    assert (info.unique, info.attempts_allowed) == ("five", 7)
    assert f"action=enqueue subject={info.descriptor} jobs=1" in caplog.text


def test_a_second_click_enqueues_no_second_job(browser, client):
    sent, later = (sent_by(browser.get("/enqueue?queue=pins"), "/enqueue", "attempts") for _ in range(2))
    first, again, changed, on_another_page = (
        post(browser, "/enqueue", **form).headers["location"] for form in (sent, sent, sent | {"attempts": "9"}, later)
    )
    assert first == again
    assert len({first, changed, on_another_page}) == client.count("pins", JobState.PENDING) == 3


@pytest.mark.parametrize("key", ["", "00", "zz" * 16, "é" * 32])
def test_a_form_without_a_key_is_another_one_each_time(key):
    form = Form([("once", key)])
    assert len(form.key) == 16
    assert form.key != form.key


def test_without_a_report_the_body_is_written_as_json(browser, client):
    page = browser.get("/enqueue?queue=pins")
    assert "No worker has reported classes" in page.text
    post(browser, "/enqueue", token_in(page), queue="pins", body='{"job":"Other"}', priority="1", attempts="2")
    assert only_job(client).body == b'{"job":"Other"}'
    bad = post(browser, "/enqueue", token_in(page), queue="pins", body="x", priority="1", attempts="2")
    assert bad.status_code == 400


def test_a_job_is_copied(browser, client):
    name = failed(client)
    page = browser.get(f"/enqueue?queue=pins&copy={name}")
    assert 'value="42"' in page.text
    command = enqueue_command(client.lookup([name], include_body=True)[name])
    assert shlex.split(command)[:3] == ["pinlater", "enqueue", "pins"]
    assert json.loads(shlex.split(command)[-1]) == json.loads(SEND)
    assert "pinlater enqueue pins" in browser.get(f"/job?id={name}").text


@pytest.mark.parametrize("body", [b"", b"\xff", b"a\nb\x1b", b"x" * 30_000])
def test_a_body_that_fits_no_command_line_has_none(body):
    assert enqueue_command(JobInfo("pins:s1:p1:1", JobState.FAILED, 1, 0, body=body)) == ""


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (JobKey("a b"), ["--key", "a b"]),
        (JobKey("a", 1, is_ordered=True), ["--key", "a", "--in-order"]),
        (JobKey("-a", 3, rate="10/s"), ["--key", "-a", "--running-per-key", "3", "--rate-per-key", "10/s"]),
    ],
)
def test_the_copy_that_a_command_enqueues_follows_the_rule_of_the_key(key, options):
    command = enqueue_command(JobInfo("pins:s1:p1:1", JobState.FAILED, 5, 0, body=b"{}", key=key))
    assert shlex.split(command) == ["pinlater", "enqueue", "pins", "--attempts", "5", *options, "{}"]


def test_a_key_with_invisible_letters_fits_no_command_line():
    key = JobKey("10\N{NO-BREAK SPACE}km")
    assert enqueue_command(JobInfo("pins:s1:p1:1", JobState.FAILED, 5, 0, body=b"{}", key=key)) == ""


def test_readers_neither_edit_nor_enqueue_and_hidden_bodies_are_logged(local_server, client, caplog):
    name = failed(client)
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        log_in(browser, READER)
        assert browser.get(f"/job/edit?id={name}").status_code == 403
        assert browser.get(f"/enqueue?queue=pins&copy={name}").status_code == 403
        assert "user_id" not in browser.get(f"/job?id={name}").text
        csrf = token_in(browser.get("/queues/pins"))
        assert post(browser, "/job/replace", csrf, job=name).status_code == 403
        assert post(browser, "/enqueue", csrf, queue="pins").status_code == 403
        browser.cookies.clear()
        log_in(browser, ADMIN)
        with caplog.at_level("INFO", "pinlater.audit"):
            assert "ada" in browser.get(f"/job/edit?id={name}").text
        assert f"action=show-body subject={name}" in caplog.text


def test_inputs_fit_the_values_they_have():
    fields = fields_of(job_class(Send).schema, {"user_id": "no number", "name": "a\nb", "extra": {"a": 1}})
    assert [(field.name, field.kind) for field in fields] == [
        ("user_id", "json"), ("name", "text"), ("tags", "json"), ("urgent", "boolean"), ("extra", "json"),
    ]  # fmt: skip
    assert [field.is_required for field in fields] == [True, False, False, False, True]
    assert fields_of("", None) is None
    assert fields_of("nonsense", {}) == []


def test_texts_are_sent_as_they_are():
    form = Form([("field-name", "a\r\n b "), ("field-empty", "")])
    fields = [BodyField("name", "text"), BodyField("empty", "text", is_required=False)]
    assert json.loads(read_body(form, "", fields)) == {"name": "a\n b "}
    with pytest.raises(RequestRefused):
        read_body(Form([]), "", [BodyField("number", "number")])
