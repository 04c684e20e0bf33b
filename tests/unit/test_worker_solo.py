"""A process that runs one job after the other: what it says and when, with a server that the test plays."""

import pytest

from pinlater import Job
from pinlater.client.servers import ServerSet
from pinlater.codec import JobCodec
from pinlater.worker.board.holding import ALONE
from pinlater.worker.options import Options
from pinlater.worker.pools import JobPool
from pinlater.worker.processes import process as process_module
from pinlater.worker.processes import solo as solo_module
from pinlater.worker.processes.solo import SoloProcess
from pinlater.worker.shared import Shared
from tests.unit.worker_fakes import FakeChild, FakePipeline, names, reply

BODY = b'{"job":"Quick"}'


class Quick(Job, queue="mail"):
    def run(self, context):
        pass


@pytest.fixture
def pipeline(monkeypatch):
    pipeline = FakePipeline()
    monkeypatch.setattr(process_module, "Pipeline", lambda *_: pipeline)
    return pipeline


@pytest.fixture
def process(pipeline, monkeypatch):
    monkeypatch.setattr(solo_module, "hear_again", lambda _: None)  # needs a real child
    child, pool = FakeChild(), JobPool()
    child.kill_at = child.status = lambda *_: None
    options = Options(modules=(), servers=ServerSet.of("127.0.0.1:1"), pools=(pool,))
    yield SoloProcess(child, options, pool, JobCodec([Quick]), Shared.for_pools([pool]))
    child.close()


def test_acks_do_not_wait_for_a_dequeue_that_waits_for_their_room(process, pipeline):
    """As after a store was away, when replies came while nothing could be settled."""
    fetcher = process._fetcher
    for name in names(ALONE.batches):
        assert fetcher.ask(0.0)
        pipeline.answer(reply(name, bodies=[BODY]))
    while (batch := fetcher.next_batch()) is not None:
        process._run(batch)
    assert not fetcher.ask(0.0), "there is no room"
    process._fetch()
    assert pipeline.methods[ALONE.batches :] == ["ackDequeuedJobs"]
    pipeline.answer()
    assert fetcher.ask(0.0)


def test_acks_do_not_wait_for_the_end_of_a_long_job(process, pipeline, monkeypatch):
    """Where no dequeue that could take them along is sent before it, since there seems to be no more to fetch."""
    fetcher, said = process._fetcher, []

    def run(batch):
        said.append(pipeline.methods[2:])
        if len(said) == 2:
            process._child.drain()
        run_really(batch)

    run_really = process._run
    monkeypatch.setattr(process, "_run", run)
    monkeypatch.setattr(process, "_leave", lambda: None)
    for name in names(2):
        assert fetcher.ask(0.0, 2)
        pipeline.answer(reply(name, bodies=[BODY]))
    process.work()
    assert said == [[], ["ackDequeuedJobs"]]
