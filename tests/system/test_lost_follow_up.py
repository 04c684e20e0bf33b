"""A follow-up whose answer is lost, and that has ended by then, is not enqueued again."""

import pytest

from pinlater import JobState
from tests.support.lossy_proxy import LossyProxy
from tests.system.worker_program import Worker, await_state, put, wait_for

JOBS = """
from pinlater import Job


class Child(Job, queue="touch"):
    def run(self, context):
        pass


class Parent(Job, queue="counts"):
    unique: str | None = None

    def run(self, context):
        context.enqueue(Child(), name="child", unique=self.unique)
"""


@pytest.fixture
def proxy(server):
    with LossyProxy(server.port) as proxy:
        yield proxy


@pytest.fixture(params=[(), ("--threads", "2")], ids=["alone", "threads"])
def worker(request, folder, proxy):
    """A worker whose server loses answers."""
    (folder / "chain.py").write_text(JOBS)
    address = f"127.0.0.1:{proxy.port}"
    with Worker(folder, "chain", "--server", address, "--processes", 1, "--queue", "counts", *request.param) as worker:
        yield worker


@pytest.mark.parametrize("unique", [None, "a key of its own"])
def test_a_child_that_has_ended_is_not_enqueued_again(worker, start, client, proxy, unique):
    start("--processes", 1, "--queue", "touch", modules=("chain",))
    proxy.lose(b"enqueueJobs", before_cut=lambda: wait_for(lambda: client.count("touch", JobState.SUCCEEDED)))
    parent = put(client, "Parent", "counts", unique=unique)
    assert await_state(client, parent, JobState.SUCCEEDED).attempts_remaining == 3, "it was handed out once"
    assert proxy.lost == 1, worker.log
    assert client.count("touch", JobState.PENDING) == 0
    assert client.count("touch", JobState.SUCCEEDED) == 1
