"""Fields that a running job shows of itself."""

import pytest

from pinlater import Job
from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.job import RawJob
from pinlater.model.body_metadata import BodyMetadata, read_metadata, read_published
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.testing import FakeContext, LocalServer
from tests.unit.jobs.workflow_attempts import InAWorker, WithFakes


@pytest.fixture(params=[InAWorker, WithFakes])
def attempts(request):
    return request.param()


def test_fields_stay_until_they_are_published_anew_or_removed(attempts):
    context = attempts.attempt()
    context.publish(stage="packing", boxes=[3])
    context.publish(stage="sending", at=(1, 2))
    context.publish(boxes=None)
    context.step("a", len, "x")
    attempts.died()
    later = attempts.attempt(2)
    later.publish(late=True)
    assert later._metadata.published == {"stage": "sending", "at": [1, 2], "late": True}


def test_they_are_sent_at_once_but_not_more_than_once_a_second(monkeypatch):
    attempts = InAWorker()
    context = attempts.attempt()
    monkeypatch.setattr("pinlater.worker.running.run_context.time.monotonic", lambda: now)
    for now in (100.0, 100.5, 100.9, 101.0):
        context.publish(at=now)
    assert [read_published(body)["at"] for body in attempts.saver.bodies] == [100.0, 101.0]


class Changing(Job):
    field: str = "saved"


def test_a_record_amid_a_change_is_not_saved_with_them():
    attempts = InAWorker(Changing())
    context = attempts.attempt()
    attempts.job.field = "half"
    context.progress(1, 2)
    context.publish(stage="packing")
    [body] = attempts.saver.bodies
    assert b'"field":"saved"' in body
    assert (read_metadata(body).published, read_metadata(body).progress.done) == ({"stage": "packing"}, 1)


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}.__iter__()])
def test_what_json_cannot_carry_is_refused(attempts, value):
    context = attempts.attempt()
    context.publish(good=1)
    with pytest.raises(BodyInvalid, match="what JSON can carry"):
        context.publish(bad=value)
    assert context._metadata.published == {"good": 1}


def test_there_is_room_for_little(attempts):
    context = attempts.attempt()
    context.publish(text="x" * 4000)
    with pytest.raises(ValueError, match=r"4096 bytes of JSON at most, and with more there would be 41\d\d; "):
        context.publish(more="y" * 100)
    context.publish(text=None, more="y" * 100)
    assert context._metadata.published == {"more": "y" * 100}


def test_a_job_that_is_done_shows_none_and_a_new_run_has_none():
    body = encode_body(Changing(), BodyMetadata(published={"stage": "x"}))
    info = JobInfo("a:s1:p1:1", JobState.PENDING, 1, 1, body=body)
    assert info.published == {"stage": "x"}
    assert info._replace(state=JobState.SUCCEEDED).published == info._replace(body=None).published == {}
    assert BodyMetadata(published={"stage": "x"}).for_next_run(5).published == {}


def test_a_raw_job_has_no_place_for_them():
    class Raw(RawJob, queue="raw"):
        pass

    with pytest.raises(BodyInvalid, match="no place for published fields"):
        FakeContext(Raw(body=b"")).publish(stage="x")


class Shows(Job, attempts=1):
    def run(self, context):
        context.publish(stage="packing")
        raise OSError("no boxes")


def test_a_handle_shows_them(tmp_path):
    with LocalServer(tmp_path) as server:
        handle = server.client(Shows).enqueue(Shows())
        server.run_worker(Shows)
        assert handle.status(include_body=True).published == {"stage": "packing"}
