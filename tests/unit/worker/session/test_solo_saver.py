"""A saver of a process of its own: saves and other calls of a job, one after the other, until a server takes them."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinlater import Job
from pinlater.errors import BodyTooLarge, CallUnsupported, EnqueueRejected, ServerUnavailable, StaleClaims, UnknownError
from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import read_metadata
from pinlater.model.messages import MessageKind, ReceivedMessage
from pinlater.protocol.messages import PinLaterMessage
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.session.saver import Snapshot
from pinlater.worker.session.solo_saver import SoloSaver
from tests.unit.worker.fakes import batch_of


class Walk(Job):
    def run(self, context):
        pass


class FakeLine:
    """A pipeline that answers as told."""

    delay_seconds, lease_seconds = 0.0, 30.0

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.waiting = []

    def open(self):
        pass

    def call(self, call):
        self.calls.append((call.method, call.arguments.request))
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer

    def send(self, call, on_reply):
        self.calls.append((call.method, call.arguments.request))
        self.waiting.append(on_reply)

    def wait(self, seconds):
        return bool(self.waiting and self.answers)

    def receive(self):
        self.waiting.pop(0)(self.answers.pop(0))


def save(line, child, count=lambda *_: None):
    saver = SoloSaver(line, Calls("me", is_plain=True), child, count)
    return saver.save(batch_of("walk:s1:p1:7"), 0, lambda: Snapshot(b"body"))


def save_briefly(line, child, count=lambda *_: None):
    saver = SoloSaver(line, Calls("me", is_plain=True), child, count)
    return saver.save_briefly(batch_of("walk:s1:p1:7"), 0, lambda: Snapshot(b"body"))


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
    assert save_briefly(FakeLine(ServerUnavailable("gone")), child, lambda *event: counted.append(event)) is False
    assert counted == [("walk", "unsaved", 1)]


def test_a_save_that_comes_too_late_does_not_take_the_claim_of_the_job_that_runs_now(child):
    """A thread that a job has left behind saves; while the server answers, the job ends and the next one begins."""
    row = ClaimTable(4).row(0)
    former = batch_of("walk:s1:p1:7", row=row)
    area = former.area

    class TurningLine(FakeLine):
        def call(self, call):
            former.finish([0])
            self.latter = batch_of("walk:s1:p1:8", row=row)
            raise StaleClaims("the job has ended", [])

    line = TurningLine()
    assert SoloSaver(line, Calls("me", is_plain=True), child).save(former, 0, lambda: Snapshot(b"body"))
    assert line.latter.area is area
    assert not line.latter.is_lost(0)
    line.latter.mark_lost(0)
    assert line.latter.is_lost(0)


class SlowLine(FakeLine):
    """Counts how many threads use it at once."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.users = self.most_users = 0
        self.is_used = threading.Event()

    def call(self, call):
        self.users += 1
        self.most_users = max(self.users, self.most_users)
        self.is_used.set()
        time.sleep(0.01)
        try:
            super().call(call)
        finally:
            self.users -= 1


def test_threads_of_a_job_save_one_after_the_other(child):
    line = SlowLine(*[None] * 8)
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    batch = batch_of("walk:s1:p1:7")
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: saver.save(batch, 0, lambda: Snapshot(b"body")), range(8))) == [True] * 8
    assert (len(line.calls), line.most_users) == (8, 1)


def test_a_save_that_had_to_wait_is_of_its_turn_and_not_of_its_call(child):
    """Else the older body of one thread would follow the newer one of another, and undo the steps that it finished."""
    gate = threading.Event()

    class GatedLine(SlowLine):
        def call(self, call):
            self.calls.append(call.arguments.request.requests[0].newBody)
            self.is_used.set()
            gate.wait()

    job, line = Walk(), GatedLine()
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    context = RunContext(job, batch_of("walk:s1:p1:7", bodies=[encode_body(job)]), 0, saver)
    with ThreadPoolExecutor(21) as threads:
        threads.submit(context.step, "first", int)
        line.is_used.wait()
        steps = [threads.submit(context.step, f"step {number}", int) for number in range(20)]
        while len(read_metadata(context.body.encode()).steps) < 21:
            time.sleep(0.001)
        gate.set()
        assert [step.result() for step in steps] == [0] * 20
    assert [len(read_metadata(body).steps) for body in line.calls] == [1] + [21] * 20


def test_the_end_of_a_job_waits_for_a_save_and_lets_none_begin(child):
    line = SlowLine(None)
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    batch = batch_of("walk:s1:p1:7")
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(saver.save, batch, 0, lambda: Snapshot(b"body"))
        line.is_used.wait()
        saver.close()
        assert (line.users, len(line.calls)) == (0, 1)
        assert late.result() is True
        with pytest.raises(RuntimeError, match="the job has ended"):
            saver.save(batch, 0, lambda: Snapshot(b"body"))
    assert len(line.calls) == 1


def test_the_end_of_a_job_ends_the_patience_of_its_threads(child):
    line = SlowLine(*[ServerUnavailable("gone")] * 1000)
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(saver.save, batch_of("walk:s1:p1:7"), 0, lambda: Snapshot(b"body"))
        line.is_used.wait()
        saver.close()
        assert late.result() is False


def test_a_save_without_patience_is_tried_once(child):
    line = FakeLine(ServerUnavailable("gone"))
    assert save_briefly(line, child) is False


def test_a_server_that_hangs_is_sent_no_other_save(child):
    """Each of them would hold the job up as long as a call may take."""
    line, counted = FakeLine(), []
    saver = SoloSaver(line, Calls("me", is_plain=True), child, lambda *event: counted.append(event))
    batch = batch_of("walk:s1:p1:7")
    bodies = iter([b"1", b"2", b"3"])
    assert [saver.save_briefly(batch, 0, lambda: Snapshot(next(bodies))) for _ in range(3)] == [False] * 3
    assert [request.requests[0].newBody for _, request in line.calls] == [b"1"]
    line.answers = [None, None]
    assert saver.save_briefly(batch, 0, lambda: Snapshot(next(bodies))) is True
    assert [request.requests[0].newBody for _, request in line.calls] == [b"1", b"2"]
    assert counted == [("walk", "saved", 1)] * 2


@pytest.mark.parametrize("is_same", [True, False])
def test_a_late_reply_goes_to_the_job_that_sent_the_call(child, is_same):
    line = FakeLine()
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    batch = batch_of("walk:s1:p1:7", "walk:s1:p1:8")
    assert saver.save_briefly(batch, 0, lambda: Snapshot(b"body")) is False
    line.answers = [EnqueueRejected("2 MB are too many"), None]
    if is_same:
        with pytest.raises(BodyTooLarge, match="2 MB"):
            saver.save_briefly(batch, 0, lambda: Snapshot(b"body"))
    else:
        assert saver.save_briefly(batch, 1, lambda: Snapshot(b"body")) is True


def test_looking_for_a_server_takes_a_small_part_of_a_jobs_time(child, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("pinlater.worker.session.solo_saver.time.monotonic", lambda: clock[0])

    class FarLine(FakeLine):
        def open(self):
            clock[0] += 2.0
            raise ServerUnavailable("no way there")

    line = FarLine()
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    batch = batch_of("walk:s1:p1:7")
    for _ in range(100):
        clock[0] += 1.0
        assert saver.save_briefly(batch, 0, lambda: Snapshot(b"body")) is False
    assert clock[0] <= 100.0 + 100.0 * 1.2


def test_nothing_is_tried_again_when_the_process_is_to_stop_now(child):
    child.stopping_now = True
    assert save(FakeLine(ServerUnavailable("gone")), child) is False


def test_a_body_too_large_is_the_jobs_mistake(child):
    with pytest.raises(BodyTooLarge, match="2 MB"):
        save(FakeLine(EnqueueRejected("2 MB are too many")), child)


def saved_steps(child, *answers):
    """Run steps of which the second has a large result; return what was sent, and the saver."""
    job, line = Walk(), FakeLine(*answers)
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    context = RunContext(job, batch_of("walk:s1:p1:7", bodies=[encode_body(job)]), 0, saver)
    for size in (10, 20_000, 10):
        context.step("load", "x".__mul__, size)
    return [(method, request.requests[0]) for method, request in line.calls], saver


def test_a_server_that_cannot_keep_results_gets_them_in_the_body(child):
    """It refuses the call that it does not know; where it would know the call and not the field, they would be lost."""
    sent, saver = saved_steps(child, None, CallUnsupported("of an older version"), None, None)
    assert [(method, bool(one.keeps)) for method, one in sent] == [
        ("checkpointJobs", False),
        ("checkpointAndKeep", True),
        ("checkpointJobs", False),
        ("checkpointJobs", False),
    ]
    assert [len(read_metadata(one.newBody).steps) for _, one in sent] == [1, 0, 2, 3]
    assert not saver.keeps_messages


def test_results_are_outside_once_a_server_has_said_so(child):
    sent, _ = saved_steps(child, None, UnknownError("the store failed"), None, None)
    bodies = [read_metadata(one.newBody) for _, one in sent]
    assert [(len(one.steps), one.kept) for one in bodies] == [(1, 0), (0, 2), (0, 2), (1, 2)]
    kept = [one.keeps for _, one in sent]
    assert kept[1] == kept[2]


class Overdue(Exception):
    """What a library that limits the time of a function raises."""


@pytest.fixture
def alarm():
    """A job's own alarm clock: one that the test suite does not use."""

    def ring(number, frame):
        raise Overdue

    former = signal.signal(signal.SIGVTALRM, ring)
    yield ring
    signal.signal(signal.SIGVTALRM, former)


class RingingLine(FakeLine):
    """Has the alarm ring amid each call."""

    def call(self, call):
        signal.raise_signal(signal.SIGVTALRM)
        super().call(call)


def test_an_alarm_of_the_job_that_rings_amid_a_call_is_heard_at_its_end(child, alarm):
    line = RingingLine(None, None)
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    batch = batch_of("jobs:s1:p1:1", bodies=[encode_body(Walk())])
    for number in (1, 2):
        with pytest.raises(Overdue):
            saver.save(batch, 0, lambda: Snapshot(b"{}"))
        assert len(line.calls) == number
        assert not saver.is_saving
        assert signal.getsignal(signal.SIGVTALRM) is alarm


def test_messages_are_asked_for_before_they_are_needed(child):
    found = [PinLaterMessage(4, "id", MessageKind.EVENT, b"x")]
    line = FakeLine()
    saver = SoloSaver(line, Calls("me", is_plain=True), child)
    wait = saver.ask_messages("walk:s1:p1:7", "go", 3, 100)
    [(method, request)] = line.calls
    assert (method, request.jobDescriptor, request.name, request.after, request.limit) == (
        "readMessages", "walk:s1:p1:7", "go", 3, 100
    )  # fmt: skip
    line.answers.append(found)
    assert wait() == [ReceivedMessage(4, "id", b"x", MessageKind.EVENT)]


@pytest.mark.parametrize("trouble", [ServerUnavailable("gone"), UnknownError("full")])
def test_messages_that_do_not_come_are_none(child, trouble):
    line = FakeLine(trouble)
    wait = SoloSaver(line, Calls("me", is_plain=True), child).ask_messages("walk:s1:p1:7", "go", 0, 100)
    assert wait() == ()
