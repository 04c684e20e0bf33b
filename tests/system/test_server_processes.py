"""Several processes behind one port, on each store that they can share: one server, whichever process answers."""

import contextlib
import itertools
import os
import signal
import socket
import threading
import time
from collections import Counter

import psutil
import pytest

from pinlater import Client, JobState
from pinlater.client import Ack, NewJob
from pinlater.errors import DequeueRateLimited
from tests.support.apache import ApacheClient, DeclaredError
from tests.support.crowd import Crowd
from tests.support.server import ServerProcess, wait_for
from tests.support.stores import SHARED_STORES

PROCESSES = 3

_queues = (f"q{number}" for number in itertools.count())


@pytest.fixture(scope="module", params=SHARED_STORES)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    settings = {"SERVER_PROCESSES": PROCESSES, "BACKEND_MONITOR_THREAD_DELAY_SECONDS": 0.2}
    with ServerProcess(folder / "server", **settings, **SHARED_STORES[request.param](folder)) as server:
        await_all_ready(server)
        yield server
        assert server.stop() == 0
    assert "Traceback" not in server.log


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        yield client


@pytest.fixture
def queue(client):
    name = next(_queues)
    client.create_queue(name)
    return name


@pytest.fixture
def peers(server):
    """A connection to each of the processes."""
    with contextlib.ExitStack() as stack:
        found = {}

        def is_complete():
            peer = stack.enter_context(ApacheClient(server.port))
            peer.getQueueNames()  # so that it was accepted
            found[holder_of(server, peer)] = peer
            return len(found) == PROCESSES

        wait_for(is_complete)
        yield list(found.values())


def connections(server):
    """Return the local address of each peer -> the process that it is connected to."""
    found = {}
    for process in server.children():
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections("tcp4"):
                if one.laddr.port == server.port and one.raddr:
                    found[tuple(one.raddr)] = process.pid
    return found


def holder_of(server, peer):
    return connections(server)[peer.socket.handle.getsockname()]


def pids(server):
    return {process.pid for process in server.children()}


def await_all_ready(server):
    wait_for(lambda: server.log.count(" ready on ") >= PROCESSES and len(pids(server)) == PROCESSES)


def await_replacement(server, pid):
    """Wait until another process serves in the place of one that ended."""
    wait_for(lambda: pid not in pids(server) and len(pids(server)) == PROCESSES)
    wait_for(lambda: server.page("/readyz")[0] == 200)


def metric(server, name, **labels):
    """Return the sum over those series of a family that have such labels."""
    marks = [f'{key}="{value}"' for key, value in labels.items()]
    lines = [line for line in server.page("/metrics")[1].splitlines() if line.split("{")[0].split(" ")[0] == name]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(mark in line for mark in marks))


# One port


def test_connections_are_spread(server):
    with contextlib.ExitStack() as stack:
        before = Counter(connections(server).values())
        for _ in range(30):
            stack.enter_context(ApacheClient(server.port)).getQueueNames()
        after = Counter(connections(server).values())
        assert set(after) == pids(server)
        assert max(after.values()) - min(after.values()) <= 2, (before, after)


def test_figures_are_those_of_all_processes(server, queue, peers):
    for peer in peers:
        for _ in range(5):
            peer.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}] * 2)
    assert metric(server, "pinlater_jobs_enqueued_total", queue=queue) == 10 * PROCESSES
    assert metric(server, "pinlater_ill_shards") == 0
    victim = holder_of(server, peers[0])
    os.kill(victim, signal.SIGKILL)
    assert metric(server, "pinlater_jobs_enqueued_total", queue=queue) == 10 * PROCESSES
    await_replacement(server, victim)
    peers[1].enqueueJobs(queueName=queue, jobs=[{"body": b"x"}])
    assert metric(server, "pinlater_jobs_enqueued_total", queue=queue) == 10 * PROCESSES + 1


def test_a_process_that_hangs_leaves_the_server_ready(server, peers):
    hung = holder_of(server, peers[0])
    os.kill(hung, signal.SIGSTOP)
    try:
        assert server.page("/readyz") == (200, "ok\n")
        for _ in range(6):
            with ApacheClient(server.port) as client:
                client.getQueueNames()
    finally:
        os.kill(hung, signal.SIGCONT)


def test_a_job_reaches_whoever_waits_at_another_process(queue, peers):
    delays = []
    for waiting, storing in itertools.permutations(peers, 2):
        request = {"queueName": queue, "limit": 1, "waitMillis": 20_000}
        waiting.send("dequeueJobs", {"context": {"source": "waits"}, "request": request})
        time.sleep(0.1)
        (name,) = storing.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}])["jobDescriptors"]
        began = time.monotonic()
        assert list(waiting.read("dequeueJobs")[1]["jobs"]) == [name]
        delays.append(time.monotonic() - began)
    assert max(delays) < 10


# One store


def pause(client, queue, peers):
    """Pause a queue without jobs, and wait until all processes have heard of it: then they hear as one what is next."""
    client.change_queue(queue, paused=True)
    for peer in peers:
        wait_for(lambda peer=peer: take(peer, queue) is None)


def take(peer, queue, limit=1):
    """Return the names of jobs that a process hands out; None if the queue is paused or limited."""
    try:
        return list(peer.dequeueJobs(queueName=queue, limit=limit).get("jobs", {}))
    except DeclaredError:
        return None


def test_limits_hold_over_all_processes(client, queue, peers):
    pause(client, queue, peers)
    client.enqueue_jobs(queue, [NewJob(b"x") for _ in range(300)])
    client.change_queue(queue, paused=False, max_running=7)
    taken = []
    for peer in peers * 2:
        wait_for(lambda peer=peer: (names := take(peer, queue, 5)) is not None and [taken.extend(names)])
    assert len(taken) == client.count(queue, JobState.IN_PROGRESS) == 7
    client.change_queue(queue, max_running=0)


def test_a_rate_holds_over_all_processes_and_is_there_for_one_alone(client, queue, peers):
    rate = 50
    pause(client, queue, peers)
    client.change_queue(queue, paused=False, jobs_per_second=rate)

    def is_reached(workers):
        client.enqueue_jobs(queue, [NewJob(b"x") for _ in range(300)])
        began, taken, seconds = time.monotonic(), 0, 0.0
        while seconds < 1.5:
            taken += sum(len(take(peer, queue, 100) or ()) for peer in workers)
            time.sleep(0.01)
            seconds = time.monotonic() - began
        assert taken <= rate * (seconds + 1.5)
        return taken > rate * seconds * 0.5  # unless the machine was too busy to take them

    for workers in (peers, peers[:1]):
        wait_for(lambda workers=workers: is_reached(workers))


def test_a_pause_holds_on_all_processes(client, queue, peers):
    pause(client, queue, peers)
    client.enqueue_jobs(queue, [NewJob(b"x") for _ in range(10)])
    for peer in peers:
        with pytest.raises(Exception, match="is paused"):
            peer.dequeueJobs(queueName=queue, limit=1)
    with pytest.raises(DequeueRateLimited):
        client.dequeue_jobs(queue, 1)
    client.change_queue(queue, paused=False)
    wait_for(lambda: client.dequeue_jobs(queue, 1))


def test_claims_are_ended_once_whichever_process_is_killed(server, client, queue):
    client.enqueue_jobs(queue, [NewJob(b"x", attempts=100) for _ in range(50)])
    for rounds, victim in enumerate(sorted(pids(server)), 1):
        assert len(client.dequeue_jobs(queue, 50, lease=0.2)) == 50
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: client.count(queue, JobState.PENDING) == 50)
        await_replacement(server, victim)
        (job,) = client.dequeue_jobs(queue, 1, lease=100)
        assert job.attempts_remaining == 100 - rounds
        client.ack(queue, failed=[Ack(job.descriptor, job.claim)])
        client.delete_jobs(queue, JobState.PENDING)
        client.enqueue_jobs(queue, [NewJob(b"x", attempts=100 - rounds) for _ in range(50)])


# Coming and going


def test_a_process_killed_under_load_loses_and_doubles_nothing(server, client, queue):
    crowd = Crowd([server.address], queue, producers=3, consumers=6, jobs=1500)
    for goal in (200, 500, 800):
        wait_for(lambda goal=goal: len(crowd.done) >= goal or crowd.faults)
        victim = min(pids(server))
        os.kill(victim, signal.SIGKILL)
        await_replacement(server, victim)
    crowd.join(spare=3 * 3 * 5)  # kills, producers, jobs of one call


class Callers:
    """Connect, call, hang up, again and again; whatever does not succeed is a fault."""

    def __init__(self, server):
        self._server = server
        self._is_over = threading.Event()
        self.calls = 0
        self.refused = []
        self._threads = [threading.Thread(target=self._run) for _ in range(3)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        for thread in self._threads:
            thread.join(20)

    def _run(self):
        while not self._is_over.wait(0.002):
            try:
                socket.create_connection(("127.0.0.1", self._server.port), timeout=20).close()
                self.calls += 1
            except OSError as error:
                self.refused.append(error)


def test_a_reload_replaces_all_processes_and_refuses_nobody(server, client, queue):
    before = pids(server)
    ready = []
    with Callers(server) as callers:
        crowd = Crowd([server.address], queue, producers=2, consumers=4, jobs=1000, lease=60)
        wait_for(lambda: len(crowd.done) > 50 or crowd.faults)
        os.kill(server.process.pid, signal.SIGHUP)

        def is_replaced():
            ready.append(server.page("/readyz")[0])
            now = pids(server)
            return len(now) == PROCESSES and not now & before

        wait_for(is_replaced, seconds=100)
        crowd.join()  # no call was lost, so no job was stored twice
    assert callers.refused == []
    assert callers.calls > 10
    assert set(ready) == {200}
