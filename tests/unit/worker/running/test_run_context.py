"""Checkpoints and steps of a running job."""

import logging
import time
from contextlib import contextmanager

import msgspec
import pytest

from pinlater.errors import BodyInvalid, JobInterrupted
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.step_failures import step_note
from pinlater.model.body_metadata import MOST_TIMES, BodyMetadata
from pinlater.model.progress import Progress
from pinlater.worker.running import run_context
from pinlater.worker.running.run_context import RunContext
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of


class Walk(Job, heartbeat=10):
    name: str = ""
    cursor: int = 0

    def run(self, context):
        pass


class Raw(RawJob, queue="raw"):
    def run(self, context):
        pass


class FakeSaver(InBody):
    """Keeps what is saved; ``is_away`` takes nothing."""

    def __init__(self):
        self.is_draining = False
        self.is_away = False
        self.saved = []

    def save(self, batch, position, encode):
        return self._keep(encode, is_brief=False)

    def save_briefly(self, batch, position, encode):
        return self._keep(encode, is_brief=True)

    def _keep(self, encode, *, is_brief):
        self.saved.append((msgspec.json.decode(encode().body), is_brief))
        return not self.is_away


class Bench:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(run_context.time, "monotonic", lambda: self.now)
        self.saver = FakeSaver()
        self.job = Walk(name="n")

    def context(self, job=None, body=None, **about):
        self.job = job or self.job
        batch = batch_of("walk:s1:p1:7", bodies=[body or encode_body(self.job)], **about)
        return RunContext(self.job, batch, 0, self.saver)

    @property
    def cursors(self):
        return [body["cursor"] for body, _ in self.saver.saved]


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


def test_it_knows_the_job(bench):
    context = bench.context(allowed=5, remaining=2)
    assert (context.descriptor, context.queue) == ("walk:s1:p1:7", "walk")
    assert (context.attempt, context.attempts_allowed, context.is_last_attempt) == (4, 5, False)
    assert bench.context(allowed=5, remaining=1).is_last_attempt
    assert str(context) == "walk:s1:p1:7 attempt 4/5"


def test_its_log_carries_the_job(bench, caplog):
    caplog.set_level(logging.INFO)
    bench.context().log.info("so far", extra={"mine": 1})
    [record] = caplog.records
    assert (record.descriptor, record.queue, record.attempt, record.mine) == ("walk:s1:p1:7", "walk", 1, 1)


def test_checkpoints_are_sent_once_a_heartbeat(bench):
    context = bench.context()
    for _ in range(31):
        bench.job.cursor += 1
        context.checkpoint()
        bench.now += 1
    assert bench.cursors == [11, 21, 31]
    assert all(is_brief for _, is_brief in bench.saver.saved)


def test_a_flush_is_sent_at_once_and_counts(bench):
    context = bench.context()
    context.checkpoint(flush=True)
    bench.now += 9
    context.checkpoint()
    assert len(bench.saver.saved) == 1
    assert not bench.saver.saved[0][1]


def test_a_checkpoint_that_no_server_took_is_tried_again_soon(bench):
    context = bench.context()
    context.checkpoint()
    bench.saver.is_away = True
    bench.now += 10
    for _ in range(4):
        context.checkpoint()
        bench.now += 0.5
    assert len(bench.saver.saved) == 2


def test_a_drain_saves_and_interrupts(bench):
    context = bench.context()
    bench.job.cursor = 3
    bench.saver.is_draining = True
    assert context.is_draining
    with pytest.raises(JobInterrupted):
        context.checkpoint()
    assert bench.cursors == [3]


def test_a_step_runs_once_and_its_result_is_saved(bench):
    context = bench.context()
    ran = []

    def double(number, *, plus):
        ran.append(number)
        return (number * 2, plus)

    assert context.step("double", double, 4, plus="x") == [8, "x"]
    again = bench.context(body=context.body.encode())
    assert again.step("double", double, 4, plus="x") == [8, "x"]
    assert ran == [4]
    [(body, is_brief)] = bench.saver.saved
    assert body.pop("$fingerprints")["double"].startswith("double/")
    [started_ms, took_ms, attempt] = body.pop("$times")["double"]
    assert (time.time() * 1000 - started_ms < 60_000, took_ms < 60_000, attempt) == (True, True, 1)
    assert body == {"job": "Walk", "name": "n", "cursor": 0, "$steps": {"double": [8, "x"]}}
    assert not is_brief


def test_a_later_attempt_gets_the_results(bench):
    context = bench.context(body=encode_body(bench.job, BodyMetadata({"a": [1]})))
    assert context.step("a", pytest.fail) == [1]
    context.step("b", lambda: None)
    assert bench.saver.saved[0][0]["$steps"] == {"a": [1], "b": None}


def test_checkpoints_keep_the_results_of_steps(bench):
    context = bench.context(body=encode_body(bench.job, BodyMetadata({"a": 1})))
    context.checkpoint(flush=True)
    assert bench.saver.saved[0][0]["$steps"] == {"a": 1}


def test_no_step_begins_in_a_drain_but_results_are_given(bench):
    context = bench.context(body=encode_body(bench.job, BodyMetadata({"a": 1})))
    bench.saver.is_draining = True
    assert context.step("a", pytest.fail) == 1
    with pytest.raises(JobInterrupted):
        context.step("b", pytest.fail)


def test_results_have_to_be_json(bench):
    context = bench.context()
    with pytest.raises(BodyInvalid, match="step 'a' returned something that JSON cannot carry"):
        context.step("a", object)
    assert bench.saver.saved == []


@pytest.mark.parametrize("result", [float("nan"), [1, {"a": float("inf")}]])
def test_results_are_finite(bench, result):
    context = bench.context()
    with pytest.raises(BodyInvalid, match=r"step 'a' returned something that JSON cannot carry: .* no word for"):
        context.step("a", lambda: result)
    assert context.step("b", lambda: [None, "null", 1.5]) == [None, "null", 1.5]


def test_a_raw_job_has_no_steps(bench):
    context = bench.context(Raw(body=b"\xff"))
    with pytest.raises(BodyInvalid, match="RawJob"):
        context.step("a", pytest.fail)
    assert context.body.encode() == b"\xff"


def progress_of(saved):
    body, is_brief = saved
    assert is_brief, "nothing waits for progress"
    return body["$progress"]


def test_progress_is_sent_once_a_heartbeat_and_leaves_the_record_alone(bench):
    context = bench.context(body=encode_body(bench.job, BodyMetadata({"a": 1})))
    for number in range(21):
        bench.job.cursor = number
        context.progress(number, 20, "walking")
        bench.now += 1
    assert [progress_of(saved)["done"] for saved in bench.saver.saved] == [10, 20]
    for body, _ in bench.saver.saved:
        assert (body["cursor"], body["name"], body["$steps"]) == (0, "n", {"a": 1})
    assert progress_of(bench.saver.saved[1]) == {"done": 20, "total": 20, "note": "walking"}


def test_progress_travels_with_checkpoints(bench):
    context = bench.context()
    for number in range(32):
        bench.job.cursor = number
        context.progress(number)
        context.checkpoint()
        bench.now += 1
    assert [(body["cursor"], body["$progress"]["done"]) for body, _ in bench.saver.saved] == [
        (n, n) for n in (10, 20, 30)
    ]


def test_progress_between_rare_checkpoints_keeps_what_they_saved(bench):
    context = bench.context()
    bench.job.cursor = 5
    context.checkpoint(flush=True)
    bench.job.cursor = 6
    bench.now += 20
    context.progress(1)
    assert bench.cursors == [5, 5]
    assert progress_of(bench.saver.saved[1])["done"] == 1


def test_progress_of_an_earlier_attempt_is_kept(bench):
    context = bench.context(body=encode_body(bench.job, BodyMetadata(progress=Progress(3, 4))))
    context.checkpoint(flush=True)
    assert bench.saver.saved[0][0]["$progress"]["done"] == 3


def test_progress_never_interrupts(bench):
    bench.saver.is_draining = True
    bench.context().progress(1)
    assert bench.saver.saved == []


def test_progress_that_no_server_took_is_not_insisted_on(bench):
    context = bench.context()
    bench.saver.is_away = True
    context.progress(1)
    for _ in range(3):
        bench.now += 6
        context.progress(2)
    assert len(bench.saver.saved) == 1


@pytest.mark.parametrize("numbers", [(-1,), (float("nan"),), (float("inf"),), (1, -1), (1, float("nan"))])
def test_progress_has_to_be_a_number_of_something(bench, numbers):
    with pytest.raises(ValueError, match="finite"):
        bench.context().progress(*numbers)


@pytest.mark.parametrize("numbers", [("half",), (1, "2"), (None,)])
def test_a_text_is_no_amount_of_work(bench, numbers):
    with pytest.raises(TypeError, match=r"amounts of work are numbers; a text is note=…"):
        bench.context().progress(*numbers)


def test_a_raw_job_has_no_progress(bench):
    with pytest.raises(BodyInvalid, match="RawJob"):
        bench.context(Raw(body=b"\xff")).progress(1)


class FakeAllowance:
    def __init__(self):
        self.signs = []

    def record_progress(self, now):
        self.signs.append("sign")

    @contextmanager
    def calling(self, most_seconds):
        self.signs.append(most_seconds)
        yield


@pytest.mark.parametrize(
    ("call", "signs"),
    [
        (lambda context: context.checkpoint(), ["sign"]),
        (lambda context: context.checkpoint(flush=True), ["sign", 30 + 10]),
        (lambda context: context.progress(1), ["sign"]),
        (lambda context: context.step("one", int), ["sign", 30 + 10]),
        (lambda context: list(context.iterate("abc")), ["sign"] * 3),
    ],
)
def test_calls_of_the_context_count_as_progress(bench, call, signs):
    context = bench.context()
    context.run_limits = FakeAllowance()
    call(context)
    assert context.run_limits.signs == signs


def test_log_lines_name_the_trace_that_the_job_came_with(monkeypatch):
    bench = Bench(monkeypatch)
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    traced = encode_body(bench.job, BodyMetadata(trace={"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}))
    context = bench.context(body=traced)
    context.may_have_metadata = True
    assert context.log_fields["trace_id"] == trace_id
    assert context.log_fields["descriptor"] == "walk:s1:p1:7"
    for strange in ({"traceparent": "x"}, {"traceparent": "00-12-34-01"}, {}):
        context = bench.context(body=encode_body(bench.job, BodyMetadata(trace=strange)))
        assert "trace_id" not in context.log_fields


def test_an_exception_says_in_which_step_it_was_raised(bench):
    context = bench.context()
    with pytest.raises(ZeroDivisionError) as caught:
        context.step("halve", lambda: 1 / 0)
    assert step_note(caught.value) == 'in step "halve"'
    with pytest.raises(OSError) as caught:
        raise OSError
    assert step_note(caught.value) == ""


def test_of_the_first_steps_the_times_are_kept(bench):
    context = bench.context()
    for _ in range(MOST_TIMES + 5):
        context.step("one", int)
    body = bench.saver.saved[-1][0]
    assert list(body["$times"]) == list(body["$steps"])[:MOST_TIMES]
    assert len(body["$steps"]) == MOST_TIMES + 5


def test_fields_of_another_version_of_the_class_stay_in_what_is_saved(bench):
    newer = b'{"job":"Walk","name":"n","cursor":2,"coupon":"X","$unread":{"since_ms":1,"until_ms":2},"more":{"a":[1]}}'
    context = bench.context(body=newer)
    context.may_have_metadata = True
    context.checkpoint(flush=True)
    context.step("one", int)
    bodies = [body for body, _ in bench.saver.saved]
    bodies += map(msgspec.json.decode, (context.body.after(JobInterrupted()), context.body.of_next_run(5)))
    assert [(body["coupon"], body["more"]) for body in bodies] == [("X", {"a": [1]})] * 4
    assert [body["cursor"] for body in bodies] == [0] * 4, "the class's own fields are those of the record"
    assert not any("$unread" in body for body in bodies)
    raw = bench.context(Raw(body=newer), body=newer)
    assert raw.body.after(JobInterrupted()) == newer
