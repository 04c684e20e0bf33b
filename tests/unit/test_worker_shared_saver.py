"""Saves that jobs in other threads hand over to the main thread."""

import asyncio
import os
import threading

import pytest

from pinlater.errors import BodyTooLarge, EnqueueRejected, QueueNotFound, ServerUnavailable, UnknownError
from pinlater.wire.messages import PinLaterEnqueueResponse, PinLaterJob, RequestContext
from pinlater.worker.board.holding import RUNNING, SUCCEEDED
from pinlater.worker.exchange.shared_saver import SharedSaver
from pinlater.worker.processes.bell import Bell
from tests.unit.worker_fakes import FakeChild, FakePipeline, batch_of

DEADLINE_SECONDS = 20


class FakeConnector:
    delay_seconds = 0.0


class Bench:
    def __init__(self, *, is_on_loop=False):
        self.pipeline = FakePipeline()
        self.child = FakeChild()
        self.bell = Bell()
        self.counted = []
        self.saver = SharedSaver(
            *(self.pipeline, FakeConnector(), RequestContext("me"), self.child, self.bell),
            is_on_loop=is_on_loop,
            count=lambda *event: self.counted.append(event),
        )
        self.batch = self.new_batch()

    def new_batch(self, name="walk:s1:p1:7"):
        batch = batch_of(name)
        batch.area.states[0] = RUNNING
        return batch

    def submit(self, body=b"body", patience_seconds=30.0):
        return self.saver.submit(self.batch, 0, body, patience_seconds)

    def save_soon(self, body):
        return self.saver.save(self.batch, 0, body, 0.0)

    @property
    def bodies(self):
        return [arguments.request.requests[0].newBody for _, arguments, _ in self.pipeline.sent]

    def close(self):
        self.child.close()
        self.bell.close()


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
    thread = threading.Thread(target=lambda: results.append(bench.saver.save(bench.batch, 0, b"body", 30.0)))
    thread.start()
    while not bench.pipeline.sent:
        bench.saver.serve()
    assert results == []
    bench.pipeline.answer()
    thread.join(DEADLINE_SECONDS)
    assert results == [True]
    [(method, arguments, _)] = bench.pipeline.sent
    [checkpoint] = arguments.request.requests
    assert (method, checkpoint.jobDescriptor, checkpoint.claimDescriptor) == (
        "checkpointJobs", "walk:s1:p1:7", "host:1:2:worker:3"
    )  # fmt: skip


def test_saves_are_sent_in_order_without_waiting_for_replies(bench):
    futures = [bench.submit(body) for body in (b"1", b"2", b"3")]
    bench.saver.serve()
    assert bench.bodies == [b"1", b"2", b"3"]
    for _ in futures:
        bench.pipeline.answer()
    assert [future.result(0) for future in futures] == [True] * 3
    assert bench.counted == [("walk", "saved", 1)] * 3


def test_a_save_is_tried_again(bench):
    future = bench.submit()
    bench.saver.serve()
    assert bench.saver.held_seconds is None
    for trouble in (ServerUnavailable("gone"), UnknownError("full")):
        bench.pipeline.answer(trouble)
        assert bench.saver.held_seconds == 0.0
        bench.saver.serve()
    bench.pipeline.answer()
    assert future.result(0) is True
    assert bench.bodies == [b"body"] * 3
    assert bench.counted == [("walk", "saved", 1)]


def test_it_is_not_tried_for_ever(bench):
    for ended in ("patience", "stop"):
        bench.child.stopping_now = ended == "stop"
        future = bench.submit(patience_seconds=0.0 if ended == "patience" else 30.0)
        bench.saver.serve()
        bench.pipeline.answer(ServerUnavailable("gone"))
        assert future.result(0) is False
    assert bench.saver.held_seconds is None
    assert bench.counted == [("walk", "unsaved", 1)] * 2


def test_refusals_are_the_jobs_to_hear(bench):
    futures = [bench.submit(), bench.submit()]
    bench.saver.serve()
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
    bench.saver.serve()
    assert bench.bodies == [b"99"]
    bench.save_soon(b"100")
    bench.save_soon(b"101")
    bench.saver.serve()
    assert bench.bodies == [b"99", b"101"], "one that is under way cannot be changed"


def test_what_came_of_a_save_without_patience_is_told_to_the_next(bench):
    bench.save_soon(b"huge")
    bench.saver.serve()
    bench.pipeline.answer(EnqueueRejected("2 MB are too many"))
    with pytest.raises(BodyTooLarge):
        bench.save_soon(b"small")
    bench.saver.serve()
    assert bench.bodies == [b"huge", b"small"]
    bench.pipeline.answer()
    assert bench.save_soon(b"smaller") is True


def test_nothing_is_kept_of_jobs_that_have_ended(bench):
    bench.save_soon(b"body")
    bench.saver.serve()
    bench.pipeline.answer()
    bench.saver.forget(bench.batch)
    assert bench.saver._soon == {}
    bench.saver.forget(bench.batch)


@pytest.mark.parametrize("patience_seconds", [0.0, 30.0])
def test_threads_that_a_job_left_behind_can_save_nothing(bench, patience_seconds):
    bench.batch.area.states[0] = SUCCEEDED
    with pytest.raises(RuntimeError, match="the job has ended"):
        bench.saver.save(bench.batch, 0, b"body", patience_seconds)
    with pytest.raises(RuntimeError, match="the job has ended"):
        bench.submit(b"body", patience_seconds)
    bench.saver.serve()
    assert bench.bodies == []


def test_a_drain_does_not_block_an_event_loop(on_loop):
    on_loop.child.drain()
    assert on_loop.saver.is_draining
    assert on_loop.saver.save(on_loop.batch, 0, b"body", 30.0) is True
    on_loop.saver.serve()
    assert on_loop.bodies == [b"body"]


def test_a_coroutine_can_wait_for_a_save(on_loop):
    async def save_and_go_on():
        saved = asyncio.wrap_future(on_loop.submit())
        await asyncio.sleep(0)
        on_loop.saver.serve()
        on_loop.pipeline.answer()
        return await saved

    assert asyncio.run(save_and_go_on()) is True


def test_a_coroutine_that_is_cancelled_meanwhile_harms_nobody(on_loop):
    async def give_up():
        saved = asyncio.wrap_future(on_loop.submit())
        on_loop.saver.serve()
        saved.cancel()
        await asyncio.sleep(0)

    asyncio.run(give_up())
    on_loop.pipeline.answer()
    assert on_loop.pipeline.in_flight == 0


def test_in_a_process_that_the_job_forks_nobody_waits(bench, monkeypatch):
    monkeypatch.setattr("pinlater.worker.exchange.shared_saver.getpid", lambda: os.getpid() + 1)
    assert bench.saver.save(bench.batch, 0, b"body", 30.0) is False


def test_other_calls_go_the_same_way(bench):
    results = []
    thread = threading.Thread(target=lambda: results.append(bench.saver.enqueue("mail", PinLaterJob(b"{}"), 30.0)))
    thread.start()
    while not bench.pipeline.sent:
        bench.saver.serve()
    bench.pipeline.answer(UnknownError("full"))
    while bench.pipeline.in_flight == 0:
        bench.saver.serve()
    bench.pipeline.answer(PinLaterEnqueueResponse(["mail:s1:p1:1"]))
    thread.join(DEADLINE_SECONDS)
    assert results == ["mail:s1:p1:1"]
    assert bench.pipeline.methods == ["enqueueJobs"] * 2
