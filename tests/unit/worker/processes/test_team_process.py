"""The main thread of a process that runs several jobs at once."""

import errno
import time

import pytest

from pinlater.client.servers import ServerSet
from pinlater.errors import ServerUnavailable
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.job import Job
from pinlater.worker.claim_table.snapshot import team_layout
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.team_process import TeamProcess
from pinlater.worker.shared import Shared
from tests.unit.client.fake_server import FakeServer
from tests.unit.worker.fakes import FakeChild


class Plain(Job, queue="jobs"):
    def run(self, context):
        pass


@pytest.fixture
def server():
    with FakeServer(lambda call: {"jobs"} if call.method == "getQueueNames" else "silence") as server:
        yield server


@pytest.fixture
def process(server):
    options = WorkerOptions(modules=("m",), servers=ServerSet([server.address]), threads=4)
    child = FakeChild()
    child.status = child.kill_at = lambda _: None
    shared = Shared.for_pools(options.pools, team_layout(4))
    process = TeamProcess(child, options, JobPool(), JobCodec([Plain]), shared)
    yield process
    process._team.close()
    process._pipeline.close()
    child.close()


def test_a_connection_that_is_lost_while_something_is_said_is_soon_made_anew(process, monkeypatch):
    """No reply, signal or waker would end a wait then."""

    def lose(call, on_reply, wait_seconds=0.0):
        process._pipeline.close()
        on_reply(ServerUnavailable("broken pipe"))

    assert process._connect() == 0.0
    monkeypatch.setattr(process._pipeline, "send", lose)
    seconds = process._send_pending()
    assert seconds is not None
    began = time.monotonic()
    process._wait(seconds)
    assert time.monotonic() - began < 20
    monkeypatch.undo()
    assert process._pipeline.is_open is False
    assert process._fetcher.has_lost


def test_the_limit_of_a_job_may_be_longer_than_a_poll(process, monkeypatch):
    monkeypatch.setattr(process._team, "check", lambda: 40 * 86400.0)
    process._waker.set()
    process._wait(None)


@pytest.mark.parametrize(("number", "is_spent"), [(errno.EMFILE, True), (errno.EBADF, False)])
def test_a_process_in_which_no_more_files_can_be_opened_ends(process, monkeypatch, number, is_spent):
    def fail(_):
        raise OSError(number, "no")

    process._recorder.check_descriptors()
    assert not process._is_finished
    monkeypatch.setattr("pinlater.worker.processes.outcome_recorder.os.dup", fail)
    process._recorder.check_descriptors()
    monkeypatch.undo()
    assert (process.is_spent, process._is_finished) == (is_spent, is_spent)
