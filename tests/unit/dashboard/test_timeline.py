"""The timeline of a job, its tracebacks, and the jobs and events it is linked with."""

import json

import msgspec
import pytest

from pinlater.dashboard.pages import job as job_page
from pinlater.dashboard.timeline import WIDTH, timeline_of
from pinlater.dashboard.tracebacks import traceback_view
from pinlater.jobs.events import event_message
from pinlater.jobs.job import Job
from pinlater.jobs.waiting import ENDLESS_MS
from pinlater.model.attempts import Checkpoint
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.status import format_failure, format_origin, status_space
from pinlater.model.wait_records import CallRecord, EventRecord

START = 1_790_000_000_000


def failure(attempt, at_seconds, seconds=2.0, step=None):
    frames = [f'  in step "{step}"'] if step else []
    header = f"attempt {attempt}/5 {format_origin('web1', 42, START / 1000 + at_seconds)} {seconds:.2f} s"
    return format_failure(header, "OSError: no", frames, status_space(1, 5))


def job(state=JobState.PENDING, status="", **fields):
    return JobInfo("pins:s1:p1:1", state, 5, 4, status, START, **{"run_after_ms": START, **fields})


def told(rows):
    return [(row.kind, row.name, row.state) for row in rows]


def test_a_job_that_waits():
    [row] = timeline_of(job(), None, START + 5000).rows
    assert (row.kind, row.name, row.seconds, row.x, row.width) == ("waited", "waits", 5.0, 0.0, WIDTH)
    [row] = timeline_of(job(run_after_ms=START + 9000), None, START + 5000).rows
    assert (row.name, row.seconds) == ("waits", 9.0), "until then"
    [row] = timeline_of(job(run_after_ms=ENDLESS_MS), None, START + 5000).rows
    assert (row.name, row.seconds) == ("waits", 5.0), "so far"


def test_the_attempt_that_succeeded():
    info = job(JobState.SUCCEEDED, failure(1, 55), updated_at_ms=START + 90_000, run_ms=20_000)
    rows = timeline_of(info, None, START + 100_000).rows
    assert told(rows)[-1] == ("attempt", "attempt 2", "succeeded")
    assert (rows[-1].start_ms, rows[-1].end_ms) == (START + 70_000, START + 90_000)
    assert len(timeline_of(info._replace(run_ms=None), None, START + 100_000).rows) == len(rows) - 1


def test_a_failure_comes_after_the_steps_that_its_attempt_has_finished():
    """Its time is that of the second before."""
    metadata = BodyMetadata(steps={"a": 1}, times={"a": (START + 55_300, 500, 1)}, tries={"b": (1, 1)})
    info = job(status=failure(1, 55, 0.2), run_after_ms=START + 90_000)
    rows = timeline_of(info, metadata, START + 60_000).rows
    assert [row.name for row in rows if row.kind != "waited"] == ["a", "attempt 1", "next attempt", "b"]
    assert [row.start_ms for row in rows if row.kind in {"attempt", "retry"}] == [START + 55_600, START + 55_800]


def test_a_step_of_a_retry_by_hand_leaves_the_failure_of_the_same_number_before_it():
    metadata = BodyMetadata(steps={"a": 1}, times={"a": (START + 86_400_000, 500, 5)})
    info = job(status=failure(5, 55) + failure(5, 86_402))
    rows = timeline_of(info, metadata, START + 90_000_000).rows
    assert [row.name for row in rows if row.kind != "waited"] == ["attempt 5", "attempt 5", "a"]
    assert [row.end_ms for row in rows if row.kind == "attempt"] == [START + 55_000, START + 86_402_000]


def test_attempts_steps_and_sleeps_in_their_order():
    metadata = BodyMetadata(
        steps={"a": 1, "b": 2, "old": 3},
        times={"a": (START + 1000, 1000, 1), "b": (START + 60_000, 4000, 2)},
        sleeps={"nap": START + 50_000},
        tries={"c": (2, 1)},
    )
    info = job(JobState.IN_PROGRESS, failure(1, 55, 2.0, "b"))
    rows = timeline_of(info, metadata, START + 70_000, since_ms=START + 60_000).rows
    assert told(rows) == [
        ("waited", "waited", "pending"),
        ("step", "a", "succeeded"),
        ("sleep", "nap", "succeeded"),
        ("attempt", "attempt 1", "failed"),
        ("attempt", "attempt 2", "running"),
        ("step", "b", "succeeded"),
        ("step", "old", "succeeded"),
        ("step", "c", "failed"),
    ]
    by_name = {row.name: row for row in rows}
    assert by_name["attempt 1"].note == "in step b: OSError: no"
    assert by_name["nap"].seconds == 48.0
    assert by_name["old"].width == 0
    bars = [row for row in rows if row.width]
    assert all(0 <= row.x <= row.x + row.width <= WIDTH + 0.2 for row in bars)
    assert by_name["nap"].width < by_name["b"].width * 3, "idle times are drawn shorter"


def test_attempts_of_less_than_a_second_neither_begin_before_the_job_nor_overlap():
    """The times of failures are cut to the second."""
    info = job(JobState.FAILED, failure(1, 0.7, 0.2) + failure(2, 0.9, 0.1))._replace(created_at_ms=START + 400)
    rows = timeline_of(info, None, START + 9000).rows
    assert [(row.name, row.start_ms - START, row.end_ms - START) for row in rows] == [
        ("attempt 1", 400, 600),
        ("attempt 2", 600, 700),
    ]


def test_the_step_that_failed_is_named_though_nothing_was_saved_of_it():
    rows = timeline_of(job(JobState.FAILED, failure(1, 5, step="charge")), BodyMetadata(), START + 70_000).rows
    assert ("step", "charge", "failed") in told(rows)


def test_the_next_attempt_is_told():
    rows = timeline_of(job(status=failure(1, 5), run_after_ms=START + 90_000), None, START + 10_000).rows
    assert told(rows)[-1] == ("retry", "next attempt", "retrying")


@pytest.mark.parametrize("info", [job(JobState.SUCCEEDED), job(JobState.FAILED)])
def test_nothing_is_made_up(info):
    assert timeline_of(info, None, START + 10_000).rows == []


@pytest.mark.parametrize(("waited_ms", "is_shortened"), [(500, False), (60_000, True)])
def test_idle_times_that_are_drawn_shorter_are_told(waited_ms, is_shortened):
    info = job(JobState.SUCCEEDED, updated_at_ms=START + waited_ms + 10_000, run_ms=10_000)
    timeline = timeline_of(info, None, START + 100_000)
    assert [row.kind for row in timeline.rows] == ["waited", "attempt"]
    assert timeline.is_shortened is is_shortened


def test_nothing_is_shortened_while_nothing_has_run():
    assert not timeline_of(job(), None, START + 5000).is_shortened
    assert not timeline_of(job(JobState.SUCCEEDED), None, START + 5000).is_shortened


OWN = '  File "/srv/app/jobs.py", line 12, in run\n    mailer.send()'
OURS = '  File "/srv/venv/lib/python3.11/site-packages/pinlater/jobs/steps.py", line 9, in run\n    return f()'
PYTHON = '  File "/usr/lib/python3.11/smtplib.py", line 255, in connect'


def test_own_frames_come_first():
    view = traceback_view(f"{OWN}\n{OURS}\n{PYTHON}")
    assert view.own == 'File "/srv/app/jobs.py", line 12, in run\n  mailer.send()'
    assert view.folded == 2
    assert "smtplib" in view.whole


@pytest.mark.parametrize("text", ["", OWN, PYTHON, "something else"])
def test_a_traceback_of_one_kind_is_shown_whole(text):
    view = traceback_view(text)
    assert (view.whole, view.folded) == ("", 0)
    assert view.own.strip() == "\n".join(line[2:] for line in text.split("\n")).strip() or view.own == text


def test_jobs_and_events_are_linked(browser, client):
    [name, child, follow_up] = client.enqueue_jobs(
        "pins", [NewJob(b"{}", priority=1), *[NewJob(b"{}", priority=2)] * 2]
    )
    [claimed] = client.dequeue_jobs("pins", 1)
    client.send_message(name, event_message("approval", {"by": "<b>ada</b>"}))
    metadata = BodyMetadata(
        calls={"resize": CallRecord(3, 10, 3, [(child, 1)])},
        enqueued={"notify": follow_up},
        events={"approval": EventRecord(0, 1)},
        steps={"load": [1]},
        times={"load": (START, 2500, 1)},
    )
    fields = json.loads(b'{"job":"Walk"}') | json.loads(msgspec.json.encode(metadata))
    client.checkpoint("pins", [Checkpoint(name, claimed.claim, json.dumps(fields).encode())])
    page = browser.get(f"/job?id={name}").text
    assert child in page.replace("%3A", ":")
    assert follow_up in page.replace("%3A", ":")
    assert "and 2 more jobs" in page
    assert "&lt;b&gt;ada" in page
    assert "2.5 s" in page
    assert "drawn shorter than they were" in page


def test_only_a_job_that_has_not_run_yet_waits_so_far(browser, client):
    fields = {"job": "Walk", "$steps": {"waits": 1}, "$times": {"waits": [START, 2500, 1]}}
    [ran, waits] = client.enqueue_jobs("pins", [NewJob(json.dumps(fields).encode()), NewJob(b'{"job":"Walk"}')])
    assert "so far" not in browser.get(f"/job?id={ran}").text
    assert "so far" in browser.get(f"/job?id={waits}").text


def test_rows_that_are_left_out_are_counted(browser, client, monkeypatch):
    monkeypatch.setattr(job_page, "MOST_ROWS", 4)
    [name] = client.enqueue_jobs("pins", [NewJob(b'{"job":"Walk","$steps":{"a":1,"b":2,"c":3,"d":4,"e":5}}')])
    page = browser.get(f"/job?id={name}").text
    assert page.count('<tr class="step">') + page.count('<tr class="waited">') == 4
    assert "And 2 more rows." in page


def test_results_that_are_kept_beside_the_body_are_shown(browser, client, local_server):
    class Import(Job, queue="pins"):
        def run(self, context):
            for number in range(3):
                context.step("load", str, f"{number} " + "x" * 9000)
            context.sleep_for(3600, name="a while")

    handle = local_server.client(Import).enqueue(Import())
    local_server.run_worker(Import, until_empty=False)
    page = browser.get(f"/job?id={handle.descriptor}").text
    for expected in ("load", "load#2", "load#3", "2 xxx", "a while"):
        assert expected in page
    assert "<h1>Import</h1>" in page
    assert "keeps_steps" in browser.get(f"/job/edit?id={handle.descriptor}").text
