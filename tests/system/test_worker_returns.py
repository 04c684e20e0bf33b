"""Jobs that go back with a body of their own: no run that was done is repeated, and nobody pays for another's body."""

import os
import signal

import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, add_jobs, await_state, info, job_module, put, ran, wait_for

JOBS = job_module("""
import time
from pathlib import Path
from pinlater import Constant, Job
from pinlater.worker.session import pace

pace.TARGET_SECONDS = 60  # however long the quick jobs take on a busy machine


class Quick(Job, queue="line"):
    def run(self, context):
        write("quick")


class Again(Job, queue="line", attempts=2, backoff=Constant(3600)):
    waits_for: str = ""
    text: str = ""
    size: int = 0

    def run(self, context):
        write(f"again {self.size}")
        while self.waits_for and not Path(self.waits_for).exists():
            time.sleep(0.01)
        self.text = "x" * self.size
        context.reschedule(after=3600)


class Long(Job, queue="line"):
    def run(self, context):
        write("long")
        while not Path("end").exists():
            time.sleep(0.02)
""")


@pytest.fixture
def own_server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    yield server
    server.kill()


@pytest.fixture
def client(own_server):
    with Client(own_server.address) as client:
        client.create_queue("line")
        yield client


@pytest.fixture
def worker(tmp_path, own_server, client):
    """A worker that fetches many jobs at once, since those before were quick."""
    (tmp_path / "line.py").write_text(JOBS)
    client.enqueue_jobs("line", [NewJob(b'{"job": "Quick"}') for _ in range(500)])
    worker = Worker(tmp_path, "line", "--processes", 1, "--server", own_server.address)
    wait_for(lambda: client.count("line", JobState.SUCCEEDED) == 500, what=lambda: worker.log)
    yield worker
    worker.end()


def put_together(client, *bodies):
    """Enqueue jobs that one dequeue takes."""
    return client.enqueue_jobs("line", [NewJob(body, attempts=2) for body in bodies])


def test_a_body_that_no_server_takes_fails_its_own_job(worker, client, tmp_path):
    sizes = [0] * 10 + [3_000_000] + [0] * 10
    names = put_together(client, *(b'{"job": "Again", "size": %d}' % size for size in sizes))

    def outcomes():
        found = client.lookup(names)
        return [found[name] for name in names]

    wait_for(lambda: all(job.state is JobState.PENDING for job in outcomes()), what=lambda: worker.log)
    spent = [job.attempts_allowed - job.attempts_remaining for job in outcomes()]
    assert spent == [int(size > 0) for size in sizes]
    assert "BodyTooLarge: what it goes on with, 30000" in outcomes()[10].status
    assert ran(tmp_path).count("again 0") == 20
    assert worker.stop() == 0


def test_a_checkpoint_does_not_wait_for_a_server_that_hangs(own_server, tmp_path):
    """Each of them would wait as long as a call may take, which is ten seconds."""
    add_jobs(tmp_path, "jobs")
    with Client(own_server.address) as client:
        client.create_queue("counts")
        marching = put(client, "March", "counts")
        worker = Worker(tmp_path, "jobs", "--processes", 1, "--queue", "counts", "--server", own_server.address)
        wait_for(lambda: "march" in ran(tmp_path), what=lambda: worker.log)
        server = own_server.child().pid
        os.kill(server, signal.SIGSTOP)
        (tmp_path / "server.stopped").touch()
        try:
            wait_for(lambda: "marched" in ran(tmp_path), what=lambda: worker.log)
        finally:
            os.kill(server, signal.SIGCONT)
        assert await_state(client, marching, JobState.SUCCEEDED).attempts_remaining == 3
        worker.end()


def test_a_run_whose_end_was_lost_is_not_repeated(worker, client, own_server, tmp_path):
    done, _, behind = put_together(
        client, b'{"job": "Again", "waits_for": "go"}', b'{"job": "Long"}', b'{"job": "Long"}'
    )
    wait_for(lambda: "again 0" in ran(tmp_path), what=lambda: worker.log)
    os.kill(own_server.child().pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    wait_for(lambda: "long" in ran(tmp_path), what=lambda: worker.log)
    own_server.kill()  # what the worker has said of the first job is lost
    own_server.start()
    with Client(own_server.address) as restarted:
        wait_for(lambda: info(restarted, behind).state is JobState.PENDING, what=lambda: worker.log)
        assert info(restarted, done).state is JobState.IN_PROGRESS, "only its process can give it back"
        (tmp_path / "end").touch()
        wait_for(lambda: info(restarted, done).state is JobState.PENDING, what=lambda: worker.log)
        assert b'"$again"' in info(restarted, done).body
    assert ran(tmp_path).count("again 0") == 1
