"""Thousands of consumers that wait for jobs of one queue."""

import contextlib
import resource
import select

import pytest

from tests.integration.test_hostile_peers import framed, read_frame
from tests.support.apache import decode_answer, encode_call
from tests.support.server import ServerProcess, wait_for

CROWD = 2000
SPARE_FILES = 300
PATIENCE_SECONDS = 60


@pytest.fixture
def enough_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + SPARE_FILES
    if hard < wanted:
        pytest.skip(f"a process may have {hard} files open, not {wanted} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def server(tmp_path, enough_files):
    server = ServerProcess(tmp_path / "server", MAX_WAIT_MILLIS="300000")
    yield server
    assert server.stop() == 0


@pytest.fixture
def crowd(server):
    """Connections with a dequeue each that waits."""
    request = {"queueName": "crowd", "limit": 1, "waitMillis": 300_000}
    waiting = framed(encode_call("dequeueJobs", 1, {"context": {"source": "crowd"}, "request": request}))
    with server.client() as client:
        client.createQueue(name="crowd")
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(server.socket()) for _ in range(CROWD)]
        for sock in socks:
            sock.sendall(waiting)
        wait_for(lambda: parked(server) == CROWD, PATIENCE_SECONDS)
        yield socks


def parked(server):
    prefix = "pinlater_parked_dequeues "
    (line,) = [line for line in server.page("/metrics")[1].splitlines() if line.startswith(prefix)]
    return float(line.removeprefix(prefix))


def jobs_of(sock):
    return decode_answer("dequeueJobs", read_frame(sock))[1].get("jobs", {})


def answered(socks):
    poll = select.poll()
    by_number = {sock.fileno(): sock for sock in socks}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(0)]


def test_one_job_wakes_one_and_as_many_jobs_as_there_are_others_wake_them_all(server, crowd):
    with server.client() as client:
        first = client.enqueueJobs(queueName="crowd", jobs=[{"body": b"x"}])["jobDescriptors"]
        (lucky,) = wait_for(lambda: answered(crowd))
        assert list(jobs_of(lucky)) == first
        assert parked(server) == CROWD - 1
        rest = client.enqueueJobs(queueName="crowd", jobs=[{"body": b"x"}] * (CROWD - 1))["jobDescriptors"]
        crowd.remove(lucky)
        wait_for(lambda: len(answered(crowd)) == CROWD - 1, PATIENCE_SECONDS)
        assert sorted(name for sock in crowd for name in jobs_of(sock)) == sorted(rest)
        assert parked(server) == 0


def test_who_leaves_is_forgotten_and_a_stop_answers_all_others(server, crowd):
    for sock in crowd[: CROWD // 2]:
        sock.close()
    wait_for(lambda: parked(server) == CROWD // 2, PATIENCE_SECONDS)
    assert server.stop() == 0
    assert all(jobs_of(sock) == {} for sock in crowd[CROWD // 2 :])
