"""Checkpoints and steps of a running job."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import pytest

from pinlater.codec import encode_body
from pinlater.errors import BodyInvalid, BodyTooLarge, EnqueueRejected, JobInterrupted, ServerUnavailable, UnknownError
from pinlater.job import Job, RawJob
from pinlater.kept import Kept, Progress, kept_in
from pinlater.wire.messages import RequestContext
from pinlater.worker.exchange.saver import Saver
from pinlater.worker.running import run_context
from pinlater.worker.running.run_context import RunContext
from tests.unit.worker_fakes import FakeChild, batch_of


class Walk(Job, heartbeat=10):
    name: str = ""
    cursor: int = 0

    def run(self, context):
        pass


class Raw(RawJob, queue="raw"):
    def run(self, context):
        pass


class FakeSaver:
    """Keeps what is saved; ``is_away`` takes nothing."""

    def __init__(self):
        self.is_draining = False
        self.is_away = False
        self.saved = []

    def save(self, batch, position, encode, patience_seconds):
        self.saved.append((msgspec.json.decode(encode()), patience_seconds))
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
        return RunContext(self.job, batch, 0, self.saver, 30.0)

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
    assert {patience for _, patience in bench.saver.saved} == {0.0}


def test_a_flush_is_sent_at_once_and_counts(bench):
    context = bench.context()
    context.checkpoint(flush=True)
    bench.now += 9
    context.checkpoint()
    assert len(bench.saver.saved) == 1
    assert bench.saver.saved[0][1] == 30.0


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
    again = bench.context(body=context.body())
    assert again.step("double", double, 4, plus="x") == [8, "x"]
    assert ran == [4]
    [(body, patience)] = bench.saver.saved
    assert body == {"job": "Walk", "name": "n", "cursor": 0, "$steps": {"double": [8, "x"]}}
    assert patience == 30.0


def test_a_later_attempt_gets_the_results(bench):
    context = bench.context(body=encode_body(bench.job, Kept({"a": [1]})))
    assert context.step("a", pytest.fail) == [1]
    context.step("b", lambda: None)
    assert bench.saver.saved[0][0]["$steps"] == {"a": [1], "b": None}


def test_checkpoints_keep_the_results_of_steps(bench):
    context = bench.context(body=encode_body(bench.job, Kept({"a": 1})))
    context.checkpoint(flush=True)
    assert bench.saver.saved[0][0]["$steps"] == {"a": 1}


def test_no_step_begins_in_a_drain_but_results_are_given(bench):
    context = bench.context(body=encode_body(bench.job, Kept({"a": 1})))
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
    assert context.body() == b"\xff"


def progress_of(saved):
    body, patience = saved
    assert patience == 0.0, "nothing waits for progress"
    return body["$progress"]


def test_progress_is_sent_once_a_heartbeat_and_leaves_the_record_alone(bench):
    context = bench.context(body=encode_body(bench.job, Kept({"a": 1})))
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
    context = bench.context(body=encode_body(bench.job, Kept(progress=Progress(3, 4))))
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


def test_a_raw_job_has_no_progress(bench):
    with pytest.raises(BodyInvalid, match="RawJob"):
        bench.context(Raw(body=b"\xff")).progress(1)


# Saver


class FakeLine:
    """A pipeline and a connector in one; answers as told."""

    delay_seconds = 0.0

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.waiting = []

    def open(self):
        pass

    def call(self, method, arguments):
        self.calls.append((method, arguments.request))
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer

    def send(self, method, arguments, on_reply):
        self.calls.append((method, arguments.request))
        self.waiting.append(on_reply)

    def wait(self, seconds):
        return bool(self.waiting and self.answers)

    def receive(self):
        self.waiting.pop(0)(self.answers.pop(0))


@pytest.fixture
def child():
    child = FakeChild()
    yield child
    child.close()


def save(line, child, patience_seconds=30.0, count=lambda *_: None):
    batch = batch_of("walk:s1:p1:7")
    return Saver(line, line, RequestContext("me"), child, count).save(batch, 0, lambda: b"body", patience_seconds)


def test_a_save_names_the_job_and_its_claim(child):
    line = FakeLine(None)
    assert save(line, child) is True
    [(method, request)] = line.calls
    [checkpoint] = request.requests
    assert (method, request.queueName, checkpoint.jobDescriptor) == ("checkpointJobs", "walk", "walk:s1:p1:7")
    assert (checkpoint.newBody, checkpoint.moveToPending) == (b"body", False)
    assert checkpoint.claimDescriptor == "host:1:2:worker:3"


def test_a_save_is_tried_again(child):
    line, counted = FakeLine(ServerUnavailable("gone"), UnknownError("full"), None), []
    assert save(line, child, count=lambda *event: counted.append(event)) is True
    assert len(line.calls) == 3
    assert counted == [("walk", "saved", 1)]


def test_a_save_that_no_server_takes_is_counted(child):
    counted = []
    assert save(FakeLine(ServerUnavailable("gone")), child, 0.0, lambda *event: counted.append(event)) is False
    assert counted == [("walk", "unsaved", 1)]


class SlowLine(FakeLine):
    """Counts how many threads use it at once."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.users = self.most_users = 0
        self.is_used = threading.Event()

    def call(self, method, arguments):
        self.users += 1
        self.most_users = max(self.users, self.most_users)
        self.is_used.set()
        time.sleep(0.01)
        try:
            super().call(method, arguments)
        finally:
            self.users -= 1


def test_threads_of_a_job_save_one_after_the_other(child):
    line = SlowLine(*[None] * 8)
    saver = Saver(line, line, RequestContext("me"), child)
    batch = batch_of("walk:s1:p1:7")
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: saver.save(batch, 0, lambda: b"body", 30.0), range(8))) == [True] * 8
    assert (len(line.calls), line.most_users) == (8, 1)


def test_a_save_that_had_to_wait_is_of_its_turn_and_not_of_its_call(child):
    """Else the older body of one thread would follow the newer one of another, and undo the steps that it finished."""
    gate = threading.Event()

    class GatedLine(SlowLine):
        def call(self, method, arguments):
            self.calls.append(arguments.request.requests[0].newBody)
            self.is_used.set()
            gate.wait()

    job, line = Walk(), GatedLine()
    saver = Saver(line, line, RequestContext("me"), child)
    context = RunContext(job, batch_of("walk:s1:p1:7", bodies=[encode_body(job)]), 0, saver, 30.0)
    with ThreadPoolExecutor(21) as threads:
        threads.submit(context.step, "first", int)
        line.is_used.wait()
        steps = [threads.submit(context.step, f"step {number}", int) for number in range(20)]
        while len(kept_in(context.body()).steps) < 21:
            time.sleep(0.001)
        gate.set()
        assert [step.result() for step in steps] == [0] * 20
    assert [len(kept_in(body).steps) for body in line.calls] == [1] + [21] * 20


def test_the_end_of_a_job_waits_for_a_save_and_lets_none_begin(child):
    line = SlowLine(None)
    saver = Saver(line, line, RequestContext("me"), child)
    batch = batch_of("walk:s1:p1:7")
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(saver.save, batch, 0, lambda: b"body", 30.0)
        line.is_used.wait()
        saver.close()
        assert (line.users, len(line.calls)) == (0, 1)
        assert late.result() is True
        with pytest.raises(RuntimeError, match="the job has ended"):
            saver.save(batch, 0, lambda: b"body", 30.0)
    assert len(line.calls) == 1


def test_the_end_of_a_job_ends_the_patience_of_its_threads(child):
    line = SlowLine(*[ServerUnavailable("gone")] * 1000)
    saver = Saver(line, line, RequestContext("me"), child)
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(saver.save, batch_of("walk:s1:p1:7"), 0, lambda: b"body", 3600.0)
        line.is_used.wait()
        saver.close()
        assert late.result() is False


def test_a_save_without_patience_is_tried_once(child):
    line = FakeLine(ServerUnavailable("gone"))
    assert save(line, child, 0.0) is False


def test_a_server_that_hangs_is_sent_no_other_save(child):
    """Each of them would hold the job up as long as a call may take."""
    line, counted = FakeLine(), []
    saver = Saver(line, line, RequestContext("me"), child, lambda *event: counted.append(event))
    batch = batch_of("walk:s1:p1:7")
    bodies = iter([b"1", b"2", b"3"])
    assert [saver.save(batch, 0, lambda: next(bodies), 0.0) for _ in range(3)] == [False] * 3
    assert [request.requests[0].newBody for _, request in line.calls] == [b"1"]
    line.answers = [None, None]
    assert saver.save(batch, 0, lambda: next(bodies), 0.0) is True
    assert [request.requests[0].newBody for _, request in line.calls] == [b"1", b"2"]
    assert counted == [("walk", "saved", 1)] * 2


@pytest.mark.parametrize("is_same", [True, False])
def test_what_a_server_says_late_is_said_to_its_own_job(child, is_same):
    line = FakeLine()
    saver = Saver(line, line, RequestContext("me"), child)
    batch = batch_of("walk:s1:p1:7", "walk:s1:p1:8")
    assert saver.save(batch, 0, lambda: b"body", 0.0) is False
    line.answers = [EnqueueRejected("2 MB are too many"), None]
    if is_same:
        with pytest.raises(BodyTooLarge, match="2 MB"):
            saver.save(batch, 0, lambda: b"body", 0.0)
    else:
        assert saver.save(batch, 1, lambda: b"body", 0.0) is True


def test_looking_for_a_server_takes_a_small_part_of_a_jobs_time(child, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("pinlater.worker.exchange.saver.time.monotonic", lambda: clock[0])

    class FarLine(FakeLine):
        def open(self):
            clock[0] += 2.0
            raise ServerUnavailable("no way there")

    line = FarLine()
    saver = Saver(line, line, RequestContext("me"), child)
    batch = batch_of("walk:s1:p1:7")
    for _ in range(100):
        clock[0] += 1.0
        assert saver.save(batch, 0, lambda: b"body", 0.0) is False
    assert clock[0] <= 100.0 + 100.0 * 1.2


def test_nothing_is_tried_again_when_the_process_is_to_stop_now(child):
    child.stopping_now = True
    assert save(FakeLine(ServerUnavailable("gone")), child) is False


def test_a_body_too_large_is_the_jobs_mistake(child):
    with pytest.raises(BodyTooLarge, match="2 MB"):
        save(FakeLine(EnqueueRejected("2 MB are too many")), child)


class FakeAllowance:
    def __init__(self):
        self.signs = []

    def sign(self, now):
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
def test_whoever_waits_for_signs_of_progress_sees_them(bench, call, signs):
    context = bench.context()
    context.allowance = FakeAllowance()
    call(context)
    assert context.allowance.signs == signs
