"""Reloads, recycling, drains and a server that is away, all under load: every count is exact afterwards."""

import random
import signal
import time

import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, job_module, put, ran, wait_for

SEED = 11
STREAM = job_module("""
import os, time
from pinlater import Job


class Quick(Job, queue="touch"):
    number: int

    def run(self, context):
        while self.number >= 300 and os.path.exists("gate"):
            time.sleep(0.01)
        time.sleep(0.002)
        write(f"quick {self.number} {context.attempt}")


class Slow(Job, queue="counts", heartbeat=0):
    name: str
    cursor: int = 0

    def run(self, context):
        for item in context.iterate(range(30)):
            time.sleep(0.02)
            write(f"slow {self.name} {item} {context.attempt}")
""")


def put_stream(client, quick, slow):
    """Put jobs of both kinds; return their descriptors."""
    bodies = [b'{"job": "Quick", "number": %d}' % number for number in range(quick)]
    jobs = client.enqueue_jobs("touch", [NewJob(body, attempts=3) for body in bodies])
    return jobs + [put(client, "Slow", "counts", name=f"n{number}") for number in range(slow)]


def ends_of(client, jobs):
    """Return the states of jobs, each with how many attempts are left."""
    found = client.lookup(jobs)
    return {(found[job].state, found[job].attempts_remaining) for job in jobs}


def expect_stream(client, folder, jobs, quick, slow):
    """Expect every job, and every item of the slow ones, to have run once, in its first attempt."""
    wait_for(lambda: sum(client.count(queue, JobState.SUCCEEDED) for queue in ("touch", "counts")) == len(jobs), 120)
    assert ends_of(client, jobs) == {(JobState.SUCCEEDED, 3)}
    assert sorted(ran(folder)) == sorted(
        [f"quick {number} 1" for number in range(quick)]
        + [f"slow n{number} {item} 1" for number in range(slow) for item in range(30)]
    )


@pytest.fixture
def stream(folder):
    (folder / "stream.py").write_text(STREAM)
    return ("stream",)


def test_reloads_and_recycling_at_random_lose_and_repeat_nothing(start, client, folder, stream):
    chance = random.Random(SEED)
    jobs = put_stream(client, quick=1200, slow=6)
    worker = start("--processes", 2, "--max-jobs", 40, modules=stream)
    worker.await_log("for queue")
    for reload in range(5):
        time.sleep(chance.uniform(0.05, 0.7))
        worker.send(signal.SIGHUP)
        wait_for(lambda sent=reload + 1: worker.log.count("reloading") == sent, what=lambda: worker.log)
    expect_stream(client, folder, jobs, quick=1200, slow=6)
    assert worker.stop() == 0
    assert worker.log.count("started") > 20


def test_a_drain_of_many_processes_full_of_jobs(start, client, folder, stream):
    """Short jobs end, those with checkpoints are interrupted, the endless are cut off: none loses an attempt."""
    jobs = put_stream(client, quick=600, slow=4)
    endless = [put(client, "Sleep", "sleeps", name=f"e{number}", seconds=3600) for number in range(2)]
    worker = start("--processes", 8, "--drain", 3, "--lease", 40, modules=("jobs", *stream))

    def is_full():
        lines = ran(folder)
        return sum("begin e" in line for line in lines) == 2 and len({x.split()[1] for x in lines if "slow" in x}) == 4

    wait_for(is_full, what=lambda: worker.log)
    assert worker.stop() == 0, worker.log
    for queue in ("touch", "counts", "sleeps"):
        assert client.count(queue, JobState.IN_PROGRESS) == 0
    assert ends_of(client, endless) == {(JobState.PENDING, 3)}
    assert {attempts for _, attempts in ends_of(client, jobs)} == {3}
    ended = [line for line in ran(folder) if not line.startswith("begin e")]
    (folder / "ran.txt").write_text("".join(f"{line}\n" for line in ended))
    second = start("--processes", 4, modules=stream)
    expect_stream(client, folder, jobs, quick=600, slow=4)
    assert second.stop() == 0


@pytest.fixture
def own_server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("away")) as server:
        yield server


def test_a_server_that_is_away_for_a_while_loses_nothing(folder, stream, own_server):
    """What ends meanwhile is acknowledged afterwards, and not done again."""
    with Client(own_server.address, retries=0, connect_timeout=30) as client:
        for queue in ("touch", "counts"):
            client.create_queue(queue)
        jobs = put_stream(client, quick=900, slow=4)
    gate = folder / "gate"
    gate.touch()
    with Worker(folder, *stream, "--server", own_server.address, "--processes", 3) as worker:
        wait_for(lambda: len(ran(folder)) >= 30, what=lambda: worker.log)
        own_server.stop()
        gate.unlink()
        time.sleep(2.5)
        own_server.start()
        with Client(own_server.address) as client:
            expect_stream(client, folder, jobs, quick=900, slow=4)
        assert worker.stop() == 0
        assert worker.log.count("cannot reach") <= 4  # once each: three job processes and the keeper
