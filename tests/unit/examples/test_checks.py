"""The checks of the demo: they pass for a good outcome, and notice everything that is wrong."""

import os
import sqlite3
from types import SimpleNamespace

import pytest

from jobs_example.demo import checks
from jobs_example.demo.checks import Outcome, check_all
from jobs_example.demo.crash import Crash
from jobs_example.demo.receiver import LOST, REFUSED, Receiver
from jobs_example.demo.work import DELAY_SECONDS, EVENTS, Work
from jobs_example.source_index import INSERT, SCHEMA
from jobs_example.thumbnails import PHOTOS, MakeThumbnails
from pinlater import JobState
from pinlater.model.jobs import JobInfo
from pinlater.testing import FakeContext

FILES = ["bisect.py", "heapq.py", "queue.py"]
CREATED_MS = 1_700_000_000_000


def handle(name):
    return SimpleNamespace(descriptor=name)


def deliver_all(receiver, work):
    numbered = [(job.descriptor, {"number": number}) for number, job in enumerate(work.events, start=1)]
    for key, event in [*numbered, (work.delayed.descriptor, {"number": 0}), (work.report.descriptor, {"lines": 1})]:
        while receiver.receive(key, event).status != 200 and event.get("number") != REFUSED:
            pass


def infos_of(work):
    infos = {job.descriptor: JobInfo(job.descriptor, JobState.SUCCEEDED, 5, 5) for job in work.handles}
    refused, report, delayed = (job.descriptor for job in (work.events[REFUSED - 1], work.report, work.delayed))
    infos[refused] = infos[refused]._replace(state=JobState.FAILED, status="Discard: 410")
    infos[report] = infos[report]._replace(attempts_remaining=4)
    infos[delayed] = infos[delayed]._replace(run_after_ms=CREATED_MS + int(DELAY_SECONDS * 1000))
    return infos


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "STANDARD_LIBRARY", tmp_path)
    monkeypatch.setattr(checks, "source_files", lambda: [tmp_path / name for name in FILES])
    photo = PHOTOS / "cat.jpg"
    events = [handle(f"event-{number}") for number in range(1, EVENTS + 1)]
    work = Work(tmp_path, [handle("cat")], events, handle("delayed"), handle("index"), handle("report"))
    MakeThumbnails(photo=str(photo), folder=str(work.thumbnail_folder)).run(FakeContext())
    with sqlite3.connect(work.index_file) as index:
        index.execute(SCHEMA)
        rows = [(row, name, "bisect_left", "", "", 1 + row // 2) for row, name in enumerate(FILES)]
        index.executemany(INSERT, rows)
    index.close()
    work.report_file.write_text("report")
    os.utime(work.report_file, (1, 1))
    receiver = Receiver()
    deliver_all(receiver, work)
    yield Outcome(work, infos_of(work), receiver, Crash(1, 2))
    receiver._server.server_close()


def failures(outcome):
    return [check.text for check in check_all(outcome) if not check.holds]


def test_a_good_outcome_passes(outcome):
    assert failures(outcome) == []
    assert len(list(check_all(outcome))) == 10


def change_index(outcome, sql):
    with sqlite3.connect(outcome.work.index_file) as index:
        index.execute(sql)
    index.close()


def lose_a_job(outcome):
    outcome.infos.pop("event-1")


def leave_a_job_pending(outcome):
    outcome.infos["event-1"] = outcome.infos["event-1"]._replace(state=JobState.PENDING)


def damage_a_thumbnail(outcome):
    next(outcome.work.thumbnail_folder.iterdir()).write_bytes(b"damaged")


def lose_an_event(outcome):
    del outcome.receiver.taken["event-2"]


def take_an_event_twice(outcome):
    outcome.receiver.taken["another key"] = outcome.receiver.taken["event-2"]


def try_the_refused_again(outcome):
    outcome.receiver.answers[410] += 1


def forget_the_lost_answer(outcome):
    outcome.receiver.repeats = 0


def deliver_too_early(outcome):
    delayed = outcome.receiver.taken["delayed"]
    outcome.receiver.taken["delayed"] = delayed._replace(at=CREATED_MS / 1000 + DELAY_SECONDS - 0.5)


def lose_a_file(outcome):
    change_index(outcome, "DELETE FROM source WHERE path = 'queue.py'")
    change_index(outcome, "UPDATE source SET attempt = 2 WHERE path = 'heapq.py'")


def index_a_file_twice(outcome):
    change_index(outcome, "INSERT INTO source VALUES ('heapq.py', '', '', '', 2)")


def begin_the_index_anew(outcome):
    change_index(outcome, "UPDATE source SET attempt = 2")


def lose_what_can_be_searched(outcome):
    change_index(outcome, "UPDATE source SET names = ''")


def write_the_report_again(outcome):
    os.utime(outcome.work.report_file, (2e9, 2e9))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lose_a_job, "enqueued"),
        (leave_a_job_pending, "enqueued"),
        (damage_a_thumbnail, "thumbnails"),
        (lose_an_event, "events were accepted"),
        (take_an_event_twice, "events were accepted"),
        (try_the_refused_again, "refused"),
        (forget_the_lost_answer, "lost"),
        (deliver_too_early, "delay"),
        (lose_a_file, "exactly once"),
        (index_a_file_twice, "exactly once"),
        (begin_the_index_anew, "checkpoint"),
        (lose_what_can_be_searched, "search"),
        (write_the_report_again, "report"),
    ],
)
def test_what_is_wrong_is_noticed(outcome, damage, word):
    damage(outcome)
    found = failures(outcome)
    assert any(word in text for text in found), found


def test_nothing_at_all_is_noticed_too(outcome):
    for path in (outcome.work.index_file, outcome.work.report_file, *outcome.work.thumbnail_folder.iterdir()):
        path.unlink()
    with Receiver() as receiver:
        assert len(failures(outcome._replace(receiver=receiver, infos=outcome.infos))) == 9


def test_a_crash_that_was_missed_is_no_success(outcome):
    (text,) = failures(outcome._replace(crash=None))
    assert "shows nothing" in text


def test_the_lost_answer_is_among_the_events():
    assert 1 <= LOST <= EVENTS >= REFUSED
