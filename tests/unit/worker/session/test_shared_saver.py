"""Saves that jobs in other threads hand over to the main thread."""

import asyncio
import os
import random
import threading

import pytest

from pinlater.errors import (
    BodyTooLarge,
    EnqueueRejected,
    QueueNotFound,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.model.messages import MessageKind, ReceivedMessage
from pinlater.protocol.messages import PinLaterEnqueueResponse, PinLaterJob, PinLaterMessage
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.snapshot import RUNNING, SUCCEEDED
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.session.saver import FollowUps, Snapshot
from pinlater.worker.session.shared_saver import SharedSaver
from tests.unit.worker.fakes import FakeChild, FakePipeline, batch_of

DEADLINE_SECONDS = 20


class Bench:
    def __init__(self, *, is_on_loop=False):
        self.pipeline = FakePipeline()
        self.child = FakeChild()
        self.waker = PipeEvent()
        self.counted = []
        self.saver = SharedSaver(
            self.pipeline,
            Calls("me", is_plain=True),
            self.child,
            self.waker,
            is_on_loop=is_on_loop,
            count=lambda *event: self.counted.append(event),
        )
        self.batch = self.new_batch()

    def new_batch(self, name="walk:s1:p1:7"):
        batch = batch_of(name)
        batch.area.states[0] = RUNNING
        return batch

    def submit(self, body=b"body"):
        return self.saver.submit(self.batch, 0, lambda: Snapshot(body))

    def save_soon(self, body):
        return self.saver.save_briefly(self.batch, 0, lambda: Snapshot(body))

    @property
    def bodies(self):
        return [arguments.request.requests[0].newBody for _, arguments, _ in self.pipeline.sent]

    def close(self):
        self.child.close()
        self.waker.close()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def on_loop():
    bench = Bench(is_on_loop=True)
    yield bench
    bench.close()


def test_a_save_waits_for_the_main_thread(bench):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(bench.saver.save(bench.batch, 0, lambda: Snapshot(b"body")))
    )
    thread.start()
    while not bench.pipeline.sent:
        bench.saver.send_queued()
    assert results == []
    bench.pipeline.answer()
    thread.join(DEADLINE_SECONDS)
    assert results == [True]
    [(method, arguments, _)] = bench.pipeline.sent
    [checkpoint] = arguments.request.requests
    assert (method, checkpoint.jobDescriptor, checkpoint.claimDescriptor) == (
        "checkpointJobs", "walk:s1:p1:7", "host:1:2:worker:3"
    )  # fmt: skip


def test_one_save_is_on_its_way_and_those_behind_it_become_one(bench):
    first = bench.submit(b"1")
    bench.saver.send_queued()
    others = [bench.submit(body) for body in (b"2", b"3", b"4")]
    bench.saver.send_queued()
    assert bench.bodies == [b"1"]
    assert not first.done()
    bench.pipeline.answer()
    assert first.result(0) is True
    assert bench.bodies == [b"1", b"4"]
    assert not any(future.done() for future in others)
    bench.pipeline.answer()
    assert [future.result(0) for future in others] == [True] * 3
    assert bench.counted == [("walk", "saved", 1)] * 2


def test_jobs_do_not_wait_for_each_others_saves(bench):
    bench.submit(b"mine")
    bench.batch = bench.new_batch("walk:s1:p1:8")
    bench.submit(b"theirs")
    bench.saver.send_queued()
    assert bench.bodies == [b"mine", b"theirs"]


@pytest.mark.parametrize("trouble", [ServerUnavailable("gone"), UnknownError("full")])
def test_a_save_that_was_not_taken_is_not_sent_again_after_a_newer_one(bench, trouble):
    old = bench.submit(b"old")
    bench.saver.send_queued()
    new = bench.submit(b"new")
    bench.pipeline.answer(trouble)
    newest = bench.submit(b"newest")
    bench.saver.send_queued()
    assert bench.bodies == [b"old", b"newest"]
    bench.pipeline.answer()
    assert [future.result(0) for future in (old, new, newest)] == [True] * 3
    assert bench.pipeline.in_flight == 0
    assert bench.saver.retry_in_seconds is None


def test_over_a_bad_connection_no_older_body_follows_a_newer_one(bench):
    chance, futures = random.Random(7), []
    for number in range(400):
        bench.saver.patience_seconds = chance.choice([0.0, 30.0])
        futures.append(bench.submit(b"%d" % number))
        if chance.random() < 0.5:
            bench.saver.send_queued()
        while bench.pipeline.in_flight and chance.random() < 0.6:
            bench.pipeline.answer(chance.choice([None, ServerUnavailable("gone")]))
    bench.saver.send_queued()
    while bench.pipeline.in_flight:
        bench.pipeline.answer()
    assert all(future.done() for future in futures)
    numbers = [int(body) for body in bench.bodies]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 399


def test_bodies_are_encoded_in_the_order_in_which_they_are_sent(bench):
    """Else one of two threads that finish steps could encode before the other, and hand over after it."""
    steps, saved = [], []

    def finish(name):
        steps.append(name)
        bench.saver.save(bench.batch, 0, lambda: Snapshot(b",".join(list(steps))))
        saved.append(name)

    threads = [threading.Thread(target=finish, args=(b"%d" % number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        bench.saver.send_queued()
        if bench.pipeline.in_flight:
            bench.pipeline.answer()
    assert len(saved) == 20
    sizes = [len(body) for body in bench.bodies]
    assert sizes == sorted(sizes)
    assert sorted(bench.bodies[-1].split(b",")) == sorted(steps)


def test_what_a_job_still_wants_to_save_is_said_before_its_end(bench):
    bench.submit(b"1")
    bench.saver.send_queued()
    bench.save_soon(b"2")
    bench.saver.end(bench.batch)
    assert bench.bodies == [b"1", b"2"]
    bench.pipeline.answer(ServerUnavailable("gone"))
    bench.pipeline.answer()
    bench.saver.send_queued()
    assert bench.bodies == [b"1", b"2"], "nothing is sent again after the job's end"
    assert bench.saver.retry_in_seconds is None


def test_a_save_is_tried_again(bench):
    future = bench.submit()
    bench.saver.send_queued()
    assert bench.saver.retry_in_seconds is None
    for trouble in (ServerUnavailable("gone"), UnknownError("full")):
        bench.pipeline.answer(trouble)
        assert bench.saver.retry_in_seconds == 0.0
        bench.saver.send_queued()
    bench.pipeline.answer()
    assert future.result(0) is True
    assert bench.bodies == [b"body"] * 3
    assert bench.counted == [("walk", "saved", 1)]


def test_it_is_not_tried_for_ever(bench):
    for ended in ("patience", "stop"):
        bench.child.stopping_now = ended == "stop"
        bench.saver.patience_seconds = 0.0 if ended == "patience" else 30.0
        future = bench.submit()
        bench.saver.send_queued()
        bench.pipeline.answer(ServerUnavailable("gone"))
        assert future.result(0) is False
    assert bench.saver.retry_in_seconds is None
    assert bench.counted == [("walk", "unsaved", 1)] * 2


@pytest.mark.parametrize("is_save", [True, False])
def test_a_shard_that_is_away_does_not_block_an_event_loop(on_loop, is_save):
    """The shards of the other jobs on it may answer."""
    ends = []

    def call():
        try:
            if is_save:
                ends.append(on_loop.saver.save(on_loop.batch, 0, lambda: Snapshot(b"body")))
            else:
                on_loop.saver.read_messages("walk:s1:p1:7", "part", 0, 1)
        except ShardConnectionFailed as error:
            ends.append(error)

    loop = threading.Thread(target=call, daemon=True)
    loop.start()
    while not on_loop.pipeline.sent:
        on_loop.saver.send_queued()
    away = ShardConnectionFailed("it is away")
    on_loop.pipeline.answer(away)
    assert on_loop.saver.retry_in_seconds is None
    loop.join(DEADLINE_SECONDS)
    assert ends == [False if is_save else away]


def test_a_coroutine_waits_for_a_shard_that_is_away(on_loop):
    future = on_loop.submit()
    on_loop.saver.send_queued()
    on_loop.pipeline.answer(ShardConnectionFailed("it is away"))
    on_loop.saver.send_queued()
    on_loop.pipeline.answer()
    assert future.result(0) is True


def test_refusals_are_the_jobs_to_hear(bench):
    futures = [bench.submit()]
    bench.saver.send_queued()
    futures.append(bench.submit())
    bench.pipeline.answer(EnqueueRejected("2 MB are too many"))
    bench.pipeline.answer(QueueNotFound("no"))
    with pytest.raises(BodyTooLarge, match="2 MB"):
        futures[0].result(0)
    with pytest.raises(QueueNotFound):
        futures[1].result(0)
    assert bench.counted == []


def test_a_save_without_patience_returns_at_once_and_the_latest_is_sent(bench):
    for number in range(100):
        assert bench.save_soon(b"%d" % number) is True
    bench.saver.send_queued()
    assert bench.bodies == [b"99"]
    bench.save_soon(b"100")
    bench.save_soon(b"101")
    bench.saver.send_queued()
    assert bench.bodies == [b"99"], "one at a time"
    bench.pipeline.answer()
    assert bench.bodies == [b"99", b"101"]


def test_what_came_of_a_save_without_patience_is_told_to_the_next(bench):
    bench.save_soon(b"huge")
    bench.saver.send_queued()
    bench.pipeline.answer(EnqueueRejected("2 MB are too many"))
    with pytest.raises(BodyTooLarge):
        bench.save_soon(b"small")
    bench.saver.send_queued()
    assert bench.bodies == [b"huge", b"small"]
    bench.pipeline.answer()
    assert bench.save_soon(b"smaller") is True


@pytest.mark.parametrize("way", ["save", "save_briefly", "submit"])
def test_threads_that_a_job_left_behind_can_save_nothing(bench, way):
    bench.batch.area.states[0] = SUCCEEDED
    with pytest.raises(RuntimeError, match="the job has ended"):
        getattr(bench.saver, way)(bench.batch, 0, lambda: Snapshot(b"body"))
    bench.saver.send_queued()
    assert bench.bodies == []


def test_a_drain_does_not_block_an_event_loop(on_loop):
    on_loop.child.drain()
    assert on_loop.saver.is_draining
    assert on_loop.saver.save(on_loop.batch, 0, lambda: Snapshot(b"body")) is True
    on_loop.saver.send_queued()
    assert on_loop.bodies == [b"body"]


def test_a_coroutine_can_wait_for_a_save(on_loop):
    async def save_and_go_on():
        saved = asyncio.wrap_future(on_loop.submit())
        await asyncio.sleep(0)
        on_loop.saver.send_queued()
        on_loop.pipeline.answer()
        return await saved

    assert asyncio.run(save_and_go_on()) is True


def test_a_coroutine_that_is_cancelled_meanwhile_harms_nobody(on_loop):
    async def give_up():
        saved = asyncio.wrap_future(on_loop.submit())
        on_loop.saver.send_queued()
        saved.cancel()
        await asyncio.sleep(0)

    asyncio.run(give_up())
    on_loop.pipeline.answer()
    assert on_loop.pipeline.in_flight == 0


def test_in_a_process_that_the_job_forks_nobody_waits(bench, monkeypatch):
    monkeypatch.setattr("pinlater.worker.session.shared_saver.getpid", lambda: os.getpid() + 1)
    assert bench.saver.save(bench.batch, 0, lambda: Snapshot(b"body")) is False


def test_other_calls_go_the_same_way(bench):
    results = []
    follow_up = FollowUps("mail", [PinLaterJob(b"{}")], b"a key of 16 byte", may_be_there=False)
    thread = threading.Thread(target=lambda: results.append(bench.saver.enqueue(follow_up)))
    thread.start()
    while not bench.pipeline.sent:
        bench.saver.send_queued()
    bench.pipeline.answer(UnknownError("full"))
    while bench.pipeline.in_flight == 0:
        bench.saver.send_queued()
    bench.pipeline.answer(PinLaterEnqueueResponse(["mail:s1:p1:1"]))
    thread.join(DEADLINE_SECONDS)
    assert results == [["mail:s1:p1:1"]]
    context = bench.pipeline.sent[-1][1].context
    assert (context.source, context.idempotencyKey, context.isRepeat) == ("me", b"a key of 16 byte", True)
    assert bench.pipeline.methods == ["enqueueJobs"] * 2


def test_messages_are_asked_for_before_they_are_needed(bench):
    wait = bench.saver.ask_messages("walk:s1:p1:7", "go", 3, 100)
    bench.saver.send_queued()
    assert bench.pipeline.methods == ["readMessages"]
    bench.pipeline.answer([PinLaterMessage(4, "id", MessageKind.EVENT, b"x")])
    assert wait() == [ReceivedMessage(4, "id", b"x", MessageKind.EVENT)]


def test_messages_that_do_not_come_are_none(bench):
    wait = bench.saver.ask_messages("walk:s1:p1:7", "go", 3, 100)
    bench.saver.send_queued()
    bench.pipeline.lose()
    bench.saver.send_queued()
    assert wait() == ()
