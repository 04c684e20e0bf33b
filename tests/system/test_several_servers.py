"""Four servers on one store, with workers at two of them: jobs run as if there were one server."""

import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pinlater import Client, JobState
from pinlater.client import Ack, NewJob
from pinlater.errors import DequeueRateLimited
from tests.support.crowd import Crowd
from tests.support.server import ServerProcess
from tests.support.stores import SHARED_STORES
from tests.system import test_worker_periodic as periodic
from tests.system import test_worker_workflows as workflows
from tests.system.worker_program import Worker, add_jobs, await_state, info, put, ran, wait_for

QUEUES = ("touch", "sleeps", "holds", "fails", "counts", "steps", "forks", "overdue", "ticks", "bursts")
LEASE_SECONDS = 2
LONG_SECONDS = 10 * LEASE_SECONDS
BURST = """
from pinlater import Job


class Burst(Job, queue="bursts"):
    number: int

    def run(self, context):
        with open("burst.txt", "a") as file:
            file.write(f"{self.number}\\n")
"""


class World:
    """Servers on one store, a client at each, and two workers; a long job runs from the beginning."""

    def __init__(self, kind, folder):
        self.folder = folder
        settings = SHARED_STORES[kind](folder)
        with ThreadPoolExecutor() as pool:
            self.servers = list(pool.map(lambda name: ServerProcess(folder / name, **settings), "abcd"))
        self.addresses = [server.address for server in self.servers]
        self.clients = [Client(address) for address in self.addresses]
        for queue in QUEUES:
            self.clients[0].create_queue(queue)
        for module in ("jobs", "flows"):
            add_jobs(folder, module)
        for module, text in (("ticking", periodic.JOBS), ("burst", BURST)):
            (folder / f"{module}.py").write_text(text)
        self.long = put(self.clients[0], "Sleep", "sleeps", name="long", seconds=LONG_SECONDS)
        self.workers = [self.worker(address, "jobs", "flows", "ticking") for address in self.addresses[:2]]

    def worker(self, address, *arguments):
        return Worker(self.folder, *arguments, "--server", address, "--processes", 3, "--lease", LEASE_SECONDS)

    def end(self):
        for one in (*self.workers, *self.clients):
            getattr(one, "end", getattr(one, "close", None))()
        for server in self.servers:
            assert server.stop() == 0
            assert "deadlock" not in server.log.lower()
            assert "Traceback" not in server.log


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """All at once, so that their long jobs run at the same time."""
    worlds = {}

    def world(kind):
        if not worlds:
            worlds.update((name, World(name, tmp_path_factory.mktemp(name))) for name in SHARED_STORES)
        return worlds[kind]

    yield world
    for one in worlds.values():
        one.end()


@pytest.fixture(params=SHARED_STORES)
def world(request, worlds):
    return worlds(request.param)


@pytest.mark.parametrize("count", [2, 4])
def test_no_job_has_two_holders(world, count):
    queue = f"crowd{count}"
    world.clients[0].create_queue(queue)
    Crowd(world.addresses[:count], queue, producers=4, consumers=16, jobs=400, retries=0, lease=60).join()


def test_jobs_of_all_servers_run_once(world):
    jobs = [put(world.clients[number % 4], "Touch", "touch", number=number) for number in range(200)]
    wait_for(lambda: world.clients[3].count("touch", JobState.SUCCEEDED) == len(jobs))
    touched = Counter(line for line in ran(world.folder) if line.startswith("touch"))
    assert touched == Counter(f"touch {number}" for number in range(200))


def test_a_workflow_ends_wherever_it_was_killed(world):
    flows = {f"flow at {place}": [place] for place in workflows.PLACES}
    jobs = {name: put(world.clients[2], "Flow", "steps", name=name, kills=kills) for name, kills in flows.items()}
    for name, kills in flows.items():
        workflows.expect_flow(world.clients[3], world.folder, name, jobs[name], kills)


def test_a_job_whose_process_was_killed_begins_again(world):
    client = world.clients[2]
    job = put(client, "Until", "sleeps", name="victim", file="victim may end")

    def begun():
        return [line.split() for line in ran(world.folder) if line.startswith("begin victim")]

    wait_for(begun)
    os.kill(int(begun()[0][-1]), signal.SIGKILL)
    (world.folder / "victim may end").touch()
    found = await_state(client, job, JobState.SUCCEEDED)
    assert (found.attempts_remaining, [line[2] for line in begun()]) == (2, ["1", "2"])
    assert found.status.count("killed by SIGKILL") == 1


def test_all_servers_hear_of_a_job_that_is_to_stop_and_of_its_end(world):
    client, others = world.clients[0], world.servers[1:]
    client.create_queue("cancels")
    [job] = client.enqueue_jobs("cancels", [NewJob(b"{}")])
    [claimed] = client.dequeue_jobs("cancels", 1, lease=600)
    with ThreadPoolExecutor() as pool:
        ends = [pool.submit(_ask, server, "lookupJobs", jobDescriptors=[job]) for server in others]
        hints = [pool.submit(_ask, server, "getCancelledJobs", sinceTimestampMillis=0) for server in others]
        wait_for(lambda: all(one.running() for one in ends + hints))
        assert client.cancel_these("cancels", [job]) == 1
        assert all(job in hint.result()["jobDescriptors"] for hint in hints)
        client.ack("cancels", [Ack(job, claimed.claim)])
        assert {end.result()[job]["jobState"] for end in ends} == {int(JobState.SUCCEEDED)}


def _ask(server, method, **request):
    with server.client() as client:
        return getattr(client, method)(waitMillis=LONG_SECONDS * 1000, **request)


def test_a_key_is_one_for_all_servers(world):
    first, *others = [
        client.enqueue_jobs("forks", [NewJob(b"{}", unique="k", run_after_ms=2**42)]) for client in world.clients
    ]
    assert others == [first] * 3


@pytest.mark.parametrize("workers", [4, 1])
def test_a_rate_is_that_of_the_queue_however_many_servers_hand_out_its_jobs(world, workers):
    rate, wanted, queue = 40, 120, f"limited{workers}"
    world.clients[0].create_queue(queue)
    world.clients[0].change_queue(queue, paused=True, jobs_per_second=rate)
    wait_for(lambda: all(refuses(client, queue) for client in world.clients))
    world.clients[1].enqueue_jobs(queue, [NewJob(b"x")] * 2 * wanted)
    began, taken = time.monotonic(), Counter()
    world.clients[2].change_queue(queue, paused=False)

    def work(server):
        with Client(world.addresses[server]) as client:
            while taken.total() < wanted:
                with suppress(DequeueRateLimited):
                    taken[server] += len(client.dequeue_jobs(queue, 10, wait=5))

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(work, server) for server in range(workers)]:
            done.result()
    # One second is saved up; another one is for servers whose idea of the time differs on a busy machine.
    assert taken.total() <= rate * (time.monotonic() - began + 2)
    assert world.clients[0].count(queue, JobState.IN_PROGRESS) == taken.total()


def refuses(client, queue):
    try:
        client.dequeue_jobs(queue, 1)
    except DequeueRateLimited:
        return True
    return False


def test_a_burst_at_one_server_runs_the_jobs_of_another(world):
    for number in range(50):
        put(world.clients[3], "Burst", "bursts", number=number)
    burst = world.worker(world.addresses[2], "burst", "--burst")
    assert burst.wait(60) == 0, burst.log
    lines = (world.folder / "burst.txt").read_text().splitlines()
    assert sorted(map(int, lines)) == list(range(50))


def test_a_tick_runs_once(world):
    wait_for(lambda: len(ticks(world.folder)) >= 6)
    found = ticks(world.folder)
    assert set(found.values()) == {1}
    assert {moment % 1000 for moment in found} == {0}


def ticks(folder):
    """Return tick -> how often it began."""
    return Counter(int(words[1]) for words in map(str.split, ran(folder)) if words[0] == "begin" and len(words) == 3)


def test_a_job_ten_times_as_long_as_its_lease_runs_once_and_workers_drain(world):
    client = world.clients[2]
    found = await_state(client, world.long, JobState.SUCCEEDED)
    assert found.attempts_remaining == 3
    assert [line.split()[2] for line in ran(world.folder) if line.startswith("begin long")] == ["1"]
    last = put(client, "Sleep", "sleeps", name="last", seconds=1.5)
    wait_for(lambda: any(line.startswith("begin last") for line in ran(world.folder)))
    for worker in world.workers:
        worker.send(signal.SIGTERM)
    assert [worker.wait() for worker in world.workers] == [0, 0]
    assert (info(client, last).state, info(client, last).attempts_remaining) == (JobState.SUCCEEDED, 3)
