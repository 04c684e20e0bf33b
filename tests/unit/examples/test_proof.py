"""The demonstration's proof: it holds for a good ending, and notices each thing that is not as it should be."""

import os
import sqlite3
from types import SimpleNamespace

import pytest

from jobs_example.demo import proof
from jobs_example.demo.accident import Accident
from jobs_example.demo.proof import Ending, claims
from jobs_example.demo.receiver import LOST, REFUSED, Receiver
from jobs_example.demo.work import DELAY_SECONDS, EVENTS, Work
from jobs_example.source_index import INSERT, SCHEMA
from jobs_example.thumbnails import PHOTOS, MakeThumbnails
from pinlater import JobState
from pinlater.model.records import JobInfo
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
def ending(tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "STANDARD_LIBRARY", tmp_path)
    monkeypatch.setattr(proof, "source_files", lambda: [tmp_path / name for name in FILES])
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
    yield Ending(work, infos_of(work), receiver, Accident(1, 2))
    receiver._server.server_close()


def failures(ending):
    return [claim.text for claim in claims(ending) if not claim.holds]


def test_a_good_ending_holds(ending):
    assert failures(ending) == []
    assert len(list(claims(ending))) == 10


def change_index(ending, sql):
    with sqlite3.connect(ending.work.index_file) as index:
        index.execute(sql)
    index.close()


def lose_a_job(ending):
    ending.infos.pop("event-1")


def leave_a_job_pending(ending):
    ending.infos["event-1"] = ending.infos["event-1"]._replace(state=JobState.PENDING)


def damage_a_thumbnail(ending):
    next(ending.work.thumbnail_folder.iterdir()).write_bytes(b"damaged")


def lose_an_event(ending):
    del ending.receiver.taken["event-2"]


def take_an_event_twice(ending):
    ending.receiver.taken["another key"] = ending.receiver.taken["event-2"]


def try_the_refused_again(ending):
    ending.receiver.answers[410] += 1


def forget_the_lost_answer(ending):
    ending.receiver.repeats = 0


def deliver_too_early(ending):
    delayed = ending.receiver.taken["delayed"]
    ending.receiver.taken["delayed"] = delayed._replace(at=CREATED_MS / 1000 + DELAY_SECONDS - 0.5)


def lose_a_file(ending):
    change_index(ending, "DELETE FROM source WHERE path = 'queue.py'")
    change_index(ending, "UPDATE source SET attempt = 2 WHERE path = 'heapq.py'")


def index_a_file_twice(ending):
    change_index(ending, "INSERT INTO source VALUES ('heapq.py', '', '', '', 2)")


def begin_the_index_anew(ending):
    change_index(ending, "UPDATE source SET attempt = 2")


def lose_what_can_be_searched(ending):
    change_index(ending, "UPDATE source SET names = ''")


def write_the_report_again(ending):
    os.utime(ending.work.report_file, (2e9, 2e9))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lose_a_job, "enqueued"),
        (leave_a_job_pending, "enqueued"),
        (damage_a_thumbnail, "thumbnails"),
        (lose_an_event, "events were taken"),
        (take_an_event_twice, "events were taken"),
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
def test_what_is_wrong_is_noticed(ending, damage, word):
    damage(ending)
    found = failures(ending)
    assert any(word in text for text in found), found


def test_nothing_at_all_is_noticed_too(ending):
    for path in (ending.work.index_file, ending.work.report_file, *ending.work.thumbnail_folder.iterdir()):
        path.unlink()
    with Receiver() as receiver:
        assert len(failures(ending._replace(receiver=receiver, infos=ending.infos))) == 9


def test_an_accident_that_was_missed_is_no_success(ending):
    (text,) = failures(ending._replace(accident=None))
    assert "nothing is shown" in text


def test_the_lost_answer_is_among_the_events():
    assert 1 <= LOST <= EVENTS >= REFUSED
