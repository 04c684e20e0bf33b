"""A server that stands still for longer than the leases last, as a paused virtual machine does: it ends no claim before
its holder could renew it, and hands out nothing that others may hold by now."""

import signal
import time
from collections import Counter

import psutil
import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from tests.support.server import ServerProcess
from tests.support.stores import SHARED_STORES
from tests.system.worker_program import Worker, info, job_module, put, ran, wait_for

ROUNDS = 3
LEASE_SECONDS = 2
LONG_JOBS = 4
SHORT_JOBS = 20
JOBS = job_module("""
import os, time
from pinlater import Job


class Long(Job, queue="longs"):
    number: int

    def run(self, context):
        write(f"long {self.number}")
        while not os.path.exists("enough"):
            time.sleep(0.05)


class Short(Job, queue="shorts"):
    number: int

    def run(self, context):
        write(f"short {self.number}")
""")
STORES = {"sqlite": lambda _: {}, **SHARED_STORES}


class World:
    """A server of two processes, where the store can be shared, and a worker in the middle of long jobs."""

    def __init__(self, kind, folder):
        self.folder = folder
        self.settings = STORES[kind](folder)
        processes = 1 if kind == "sqlite" else 2
        self.server = ServerProcess(folder / "server", SERVER_PROCESSES=processes, **self.settings)
        self.client = Client(self.server.address)
        for queue in ("longs", "shorts"):
            self.client.create_queue(queue)
        (folder / "jobs.py").write_text(JOBS)
        self.jobs = [put(self.client, "Long", "longs", number=number) for number in range(LONG_JOBS)]
        self.worker = Worker(
            folder, "jobs", "--server", self.server.address, "--processes", LONG_JOBS + 2, "--lease", LEASE_SECONDS
        )

    def send(self, number):
        """Send a signal to all processes of the server, which are groups of their own."""
        master = psutil.Process(self.server.process.pid)
        for process in (master, *master.children(recursive=True)):
            process.send_signal(number)

    def end(self):
        self.worker.end()
        self.client.close()
        self.server.stop()


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """All of them stand still at the same time."""
    worlds = {kind: World(kind, tmp_path_factory.mktemp(kind)) for kind in STORES}
    yield worlds
    for world in worlds.values():
        world.end()


@pytest.fixture(scope="module")
def rounds(worlds):
    """Let the servers stand still again and again."""
    for world in worlds.values():
        wait_for(lambda world=world: len(ran(world.folder)) >= LONG_JOBS)
    for done in range(SHORT_JOBS, (ROUNDS + 1) * SHORT_JOBS, SHORT_JOBS):
        for world in worlds.values():
            for number in range(done - SHORT_JOBS, done):
                world.jobs.append(put(world.client, "Short", "shorts", number=number))
            world.send(signal.SIGSTOP)
        time.sleep(1.5 * LEASE_SECONDS)
        for world in worlds.values():
            world.send(signal.SIGCONT)
        for world in worlds.values():
            wait_for(lambda world=world, done=done: world.client.count("shorts", JobState.SUCCEEDED) == done)
    for world in worlds.values():
        (world.folder / "enough").touch()
    return worlds


@pytest.mark.parametrize("kind", STORES)
def test_no_job_runs_twice_and_no_acknowledged_one_comes_back(rounds, kind):
    world = rounds[kind]
    wait_for(lambda: world.client.count("longs", JobState.SUCCEEDED) == LONG_JOBS)
    longs = Counter(line for line in ran(world.folder) if line.startswith("long"))
    shorts = Counter(line for line in ran(world.folder) if line.startswith("short"))
    assert longs == Counter(f"long {number}" for number in range(LONG_JOBS))
    assert shorts == Counter(f"short {number}" for number in range(ROUNDS * SHORT_JOBS))
    found = [info(world.client, job) for job in world.jobs]
    assert {(one.state, one.attempts_remaining) for one in found} == {(JobState.SUCCEEDED, 3)}
    assert "this server was stalled for" in world.server.log


@pytest.mark.parametrize("kind", SHARED_STORES)
def test_a_server_that_goes_on_ends_what_nobody_renews(worlds, kind):
    world = worlds[kind]
    other = ServerProcess(world.folder / "other", **world.settings)
    try:
        with Client(other.address) as client:
            client.create_queue("dead")
            (job,) = client.enqueue_jobs("dead", [NewJob(b"x", attempts=3)])
            world.send(signal.SIGSTOP)
            client.dequeue_jobs("dead", 1, lease=LEASE_SECONDS)
            wait_for(lambda: info(client, job).state is JobState.PENDING)
            world.send(signal.SIGCONT)
            (again,) = client.dequeue_jobs("dead", 1, wait=10)
            assert (again.descriptor, info(client, job).attempts_remaining) == (job, 2)
    finally:
        world.send(signal.SIGCONT)
        other.stop()
