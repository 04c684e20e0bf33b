"""Jobs that enqueue others in a queue that nobody has created wait for it, and spend no attempt on it."""

import pytest

from pinlater import Client
from pinlater.client import NewJob
from pinlater.model.state import JobState
from tests.support.server import ServerProcess
from tests.system.test_worker_metrics import figures
from tests.system.worker_program import Worker, ran, wait_for

CALLS = """
from jobs import *


class Measure(Job[int], queue="measures"):
    def run(self, context):
        return 5


class Calls(Job, queue="touch", attempts=1):
    def run(self, context):
        write(f"got {context.call(Measure())}")


class Follows(Job, queue="touch", attempts=1):
    def run(self, context):
        context.enqueue(Measure(), name="measure")
        write("enqueued")


__all__ = ["Calls", "Follows", "Measure"]
"""


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path / "server", QUEUE_AUTO_CREATE="false") as server:
        yield server


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        client.create_queue("touch")
        yield client


@pytest.fixture
def start(folder, server):
    (folder / "calls.py").write_text(CALLS)
    workers = []

    def start(*queues):
        told = [part for queue in queues for part in ("--queue", queue)]
        workers.append(Worker(folder, "calls", "--server", server.address, "--health", "0", *told))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


@pytest.mark.parametrize(("name", "said"), [("Calls", "got 5"), ("Follows", "enqueued")])
def test_a_job_waits_until_somebody_creates_the_queue(start, client, folder, name, said):
    [job] = client.enqueue_jobs("touch", [NewJob(b'{"job": "%s"}' % name.encode(), attempts=1)])
    worker = start("touch")
    wait_for(lambda: figures(worker).get(("jobs_total", "touch", name, "no_queue"), 0) > 1, what=lambda: worker.log)
    assert worker.stop() == 0  # or it may be trying again
    found = client.lookup([job])[job]
    assert (found.state, found.attempts_remaining) == (JobState.PENDING, 1)
    assert "waits for a queue: there is no queue 'measures'; create it first (pinlater create-queue" in found.status
    client.create_queue("measures")
    start("touch", "measures")
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED), what=lambda: worker.log)
    assert ran(folder) == [said]
