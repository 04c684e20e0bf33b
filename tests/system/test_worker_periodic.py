"""Periodic jobs in real workers: one run a tick, whatever is killed meanwhile."""

import json
import random
import time
from collections import defaultdict

import psutil
import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.sharded.rendezvous import rank
from tests.support.redis_service import RedisService
from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, environment_with, ran, wait_for

JOBS = """
import os, time
from pinlater import Constant, Job


def write(line):
    descriptor = os.open("ran.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\\n".encode())
    os.close(descriptor)


class Tick(Job, queue="ticks", every=1, attempts=50, backoff=Constant(0.05)):
    def run(self, context):
        moment = round(context.scheduled_for.timestamp() * 1000)
        write(f"begin {moment} {os.getpid()}")
        time.sleep(0.2)
        write(f"end {moment} {os.getpid()}")
"""

TICKS = 12


@pytest.fixture
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("ticking")) as server:
        yield server


@pytest.fixture
def workers(tmp_path, server):
    (tmp_path / "jobs.py").write_text(JOBS)
    ways = (("--processes", 1), ("--processes", 2), ("--processes", 1, "--threads", 3))
    workers = [Worker(tmp_path, "jobs", "--server", server.address, *way) for way in ways]
    yield workers
    for worker in workers:
        worker.end()


def runs(folder, what):
    """Return tick -> processes that have written this of it, in order."""
    found = defaultdict(list)
    for word, moment, pid in map(str.split, ran(folder)):
        if word == what:
            found[int(moment)].append(int(pid))
    return found


class Killer:
    """Kills the process of a job that runs, and remembers whom."""

    def __init__(self, folder):
        self.killed = set()
        self._folder = folder
        self._chance = random.Random(11)

    def strike(self):
        lines = ran(self._folder)
        word, _, pid = lines[-1].split() if lines else ("", "", "0")
        if word == "begin" and int(pid) not in self.killed and self._chance.random() < 0.08:
            self.killed.add(int(pid))
            psutil.Process(int(pid)).kill()


def test_each_tick_has_one_success_whoever_is_killed(workers, server, tmp_path):
    killer, is_restarted = Killer(tmp_path), False
    deadline = time.monotonic() + 120
    while len(runs(tmp_path, "end")) < TICKS:
        assert time.monotonic() < deadline, "\n".join(worker.log for worker in workers)
        time.sleep(0.03)
        killer.strike()
        if not is_restarted and len(runs(tmp_path, "end")) >= TICKS // 2:
            server.kill()
            server.start()
            is_restarted = True
    begun, ended = runs(tmp_path, "begin"), runs(tmp_path, "end")
    assert killer.killed
    assert list(begun) == sorted(begun), "no tick comes back"
    assert all(moment % 1000 == 0 for moment in begun)
    for pids in begun.values():
        assert set(pids[:-1]) <= killer.killed, "only those that were killed are repeated"
    for pids in ended.values():
        assert set(pids[:-1]) <= killer.killed, "one success; a second only if nobody heard of the first"
    assert set(begun) - set(ended) <= {max(begun)}, "each tick that began came to its end"
    with Client(server.address) as client:
        jobs = [client.count("ticks", state, future=future) for state in JobState for future in (False, True)]
        assert sum(jobs) <= 2, "one job, seen in one state or, as it moves, in two"


@pytest.mark.parametrize("wrong_by", [600, -600])
@pytest.mark.parametrize("several", [(), ("--threads", 2)])
def test_the_server_s_clock_decides(tmp_path, wrong_by, several):
    """A worker whose clock is ahead must not leave out ticks, nor one whose clock is behind run for none."""
    (tmp_path / "jobs.py").write_text(JOBS)
    env = environment_with(tmp_path, f"import time\nright = time.time\ntime.time = lambda: right() + {wrong_by}")
    server = ServerProcess(tmp_path / "server")
    began_ms = time.time() * 1000
    worker = Worker(tmp_path, "jobs", "--server", server.address, "--processes", 1, *several, env=env)
    try:
        wait_for(lambda: len(runs(tmp_path, "end")) >= 4, what=lambda: worker.log)
    finally:
        worker.end()
        server.stop()
    ended_ms = time.time() * 1000
    assert all(began_ms - 1000 < moment < ended_ms + 1000 for moment in runs(tmp_path, "end"))


def home(names):
    """Return which of the shards the key of the job selects."""
    return max(names, key=lambda name: rank(name, "Tick every 1.0"))


@pytest.fixture
def redis(tmp_path):
    with RedisService(tmp_path / "redis") as service:
        yield service


@pytest.mark.parametrize("first", ["1", "12345678"], ids=["others were added", "its shard takes no new jobs"])
def test_each_tick_has_one_run_though_the_key_selects_another_shard_than_the_job_is_on(tmp_path, redis, first):
    file, own = tmp_path / "shards.json", home(first)

    def write(names, closed=""):
        place = {"master": {"host": "127.0.0.1", "port": redis.port}}
        shards = [{"name": name, "shardConfig": {**place, "dequeueOnly": name == closed}} for name in names]
        file.write_text(json.dumps({"shards": shards}))

    def start():
        workers.append(Worker(tmp_path, "jobs", "--server", server.address, "--processes", 1))

    write(first)
    server, workers = ServerProcess(tmp_path / "server", PINLATER_BACKEND="redis", BACKEND_CONFIG=str(file)), []
    (tmp_path / "jobs.py").write_text(JOBS)
    try:
        start()
        wait_for(lambda: runs(tmp_path, "end"), what=lambda: workers[0].log)
        write("12345678", closed=own if first != own else "")
        with Client(server.address) as client:
            client.create_queue("others")
            job = NewJob(b"{}", unique="Tick every 1.0")
            wait_for(lambda: JobDescriptor.parse(client.enqueue_jobs("others", [job])[0]).shard != own)
        start()
        wait_for(lambda: len({pid for of_tick in runs(tmp_path, "begin").values() for pid in of_tick}) > 1)
        enough = len(runs(tmp_path, "end")) + 3
        wait_for(lambda: len(runs(tmp_path, "end")) >= enough, what=lambda: workers[1].log)
        assert all(len(pids) == 1 for pids in runs(tmp_path, "begin").values())
    finally:
        for worker in workers:
            worker.end()
        server.stop()


def test_a_job_that_somebody_deleted_comes_back(server, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Client(server.address) as client:
        first = Worker(tmp_path, "jobs", "--server", server.address, "--processes", 1)
        wait_for(lambda: runs(tmp_path, "end"), what=lambda: first.log)
        first.end()
        client.delete_queue("ticks", "open sesame")
        before = len(runs(tmp_path, "end"))
        with Worker(tmp_path, "jobs", "--server", server.address, "--processes", 1) as second:
            wait_for(lambda: len(runs(tmp_path, "end")) >= before + 2, what=lambda: second.log)


def test_a_job_retried_by_hand_beside_its_successor_is_ended_after_its_run(server, tmp_path):
    def start():
        return Worker(tmp_path, "jobs", "--server", server.address, "--processes", 1)

    def waiting():
        return [job.descriptor for job in client.scan("ticks", JobState.PENDING, future=True).jobs]

    (tmp_path / "jobs.py").write_text(JOBS)
    with Client(server.address) as client:
        with start() as worker:
            wait_for(lambda: runs(tmp_path, "end"), what=lambda: worker.log)
        [first] = waiting()
        client.cancel_these("ticks", [first])
        with start() as worker:
            wait_for(waiting, what=lambda: worker.log)
            client.retry_these("ticks", [first], attempts=9)
            wait_for(lambda: f"{first} was ended" in worker.log, what=lambda: worker.log)
            job = client.lookup([first])[first]
            assert (job.state, job.is_cancelled) == (JobState.FAILED, True)
            assert "is the periodic job of its class" in job.status
            enough = len(runs(tmp_path, "end")) + 2
            wait_for(lambda: len(runs(tmp_path, "end")) >= enough, what=lambda: worker.log)
