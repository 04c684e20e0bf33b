"""Programs whose standard error is a pipe that is full and that nobody reads, as when a log collector hangs."""

import os
import signal

import pytest

from pinlater.model.state import JobState
from tests.support.server import ServerProcess, wait_for
from tests.system.worker_program import Worker, await_state, put


@pytest.fixture
def full_pipe():
    """Make a full pipe at a path."""
    readers = []

    def full_pipe(path):
        os.mkfifo(path)
        readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, bytes(4096))
        except BlockingIOError:
            os.close(writer)
        return path

    yield full_pipe
    for reader in readers:
        os.close(reader)


@pytest.mark.usefixtures("start")
@pytest.mark.parametrize("how", ["print", "stderr", "log"])
def test_a_worker_runs_jobs_replaces_processes_and_stops(client, server, folder, full_pipe, how):
    pipe = full_pipe(folder / "pipe")
    with Worker(folder, "jobs", "--processes", 1, "--server", server.address, log_file=pipe) as worker:
        await_state(client, put(client, "Prints", "touch", how=how), JobState.SUCCEEDED)
        worker.children("jobs")[0].kill()
        await_state(client, put(client, "Prints", "touch", how=how), JobState.SUCCEEDED)
        assert worker.stop() == 0


def test_a_server_answers_replaces_processes_and_stops(tmp_path, full_pipe):
    (tmp_path / "server").mkdir()
    full_pipe(tmp_path / "server" / "server.log")
    with ServerProcess(tmp_path / "server") as server:
        first = server.child()
        first.send_signal(signal.SIGKILL)
        wait_for(lambda: server.children() not in ([], [first]))
        with server.client() as client:
            client.createQueue(name="any")
        assert server.stop() == 0
