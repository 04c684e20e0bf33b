"""The admin process of a real server: its pages outlive the server process, and the other way round."""

import os
import signal

import pytest

from tests.support.server import ServerProcess, wait_for


@pytest.fixture
def server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    yield server
    if server.process.poll() is None:
        server.kill()


ADMIN = "pinlater-server: admin"


def created(server):
    _, page = server.page("/metrics")
    rows = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return float(rows['pinlater_call_seconds_count{method="createQueue"}'])


def test_counts_survive_the_death_of_the_server_process(server):
    with server.client() as client:
        client.createQueue(name="pins")
    assert created(server) == 1
    first = server.child().pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: server.page("/readyz")[0] == 200 and server.child().pid != first)
    with server.client() as client:
        client.createQueue(name="more")
    assert created(server) == 2


def test_jobs_are_served_while_there_is_no_admin_process(server):
    admin = server.child(ADMIN).pid
    os.kill(admin, signal.SIGKILL)
    with server.client() as client:
        client.createQueue(name="pins")
    wait_for(lambda: server.page("/livez") == (200, "ok\n"))  # its port was open all the time
    assert created(server) == 1


def test_a_server_process_that_hangs_is_not_ready(server):
    first = server.child().pid
    os.kill(first, signal.SIGSTOP)
    try:
        assert server.page("/readyz") == (503, "no server process answers\n")
        assert server.page("/livez")[0] == 200
    finally:
        os.kill(first, signal.SIGCONT)
    wait_for(lambda: server.page("/readyz")[0] == 200)


def test_stopping_leaves_no_process(server):
    family = [server.child(), server.child(ADMIN)]
    assert server.stop() == 0
    assert not [process for process in family if process.is_running()]
