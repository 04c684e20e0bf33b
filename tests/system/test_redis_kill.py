"""Redis killed, stopped, or dead for good under the load of a server: what was answered stays answered."""

import hashlib
import json
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest

from pinlater.model.descriptor import JobDescriptor
from tests.support.apache import DeclaredError
from tests.support.redis_service import RedisService
from tests.support.server import ServerProcess, wait_for

KILLS = 5
LANES = 4
QUEUE = "emails"


def body(text):
    return text.encode() + b":" + hashlib.sha256(text.encode()).digest() * 20


def server_on(folder, services, **settings):
    file = folder / "shards.json"
    write_shards(file, services)
    return ServerProcess(folder / "server", PINLATER_BACKEND="redis", BACKEND_CONFIG=str(file), **settings)


def write_shards(file, services, dequeue_only=()):
    shards = [
        {
            "name": str(number),
            "shardConfig": {
                "master": {"host": "127.0.0.1", "port": service.port},
                "dequeueOnly": str(number) in dequeue_only,
            },
        }
        for number, service in enumerate(services, 1)
    ]
    file.write_text(json.dumps({"shards": shards}))


class Load:
    """Producers and workers that go on whatever they are answered; remembers what they were promised."""

    def __init__(self, server):
        self._server = server
        self._end = threading.Event()
        self.enqueued = {}
        self.acked = set()
        self.failures = Counter()
        self.faults = []
        self.longest_seconds = 0.0
        self._threads = [threading.Thread(target=self._run, args=(lane,)) for lane in range(LANES)]
        for thread in self._threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a call did not end"

    def grows(self, by):
        """Wait until so many more jobs were stored, and some acked."""
        stored, acked = len(self.enqueued) + by, len(self.acked) + 1
        wait_for(lambda: self.faults or (len(self.enqueued) >= stored and len(self.acked) >= acked), seconds=60)

    def _run(self, lane):
        try:
            with self._server.client(f"load:{lane}") as client:
                number = 0
                while not self._end.is_set():
                    number += 1
                    self._once(self._produce if lane % 2 else self._work, client, lane, number)
        except Exception as fault:
            self.faults.append(fault)

    def _once(self, act, client, lane, number):
        began = time.monotonic()
        try:
            act(client, lane, number)
        except DeclaredError as failure:
            self.failures[failure.code] += 1
            time.sleep(0.02)
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)

    def _produce(self, client, lane, number):
        texts = [f"{lane}.{number}.{at}" for at in range(lane + 1)]
        answer = client.enqueueJobs(queueName=QUEUE, jobs=[{"body": body(text)} for text in texts])
        self.enqueued |= dict(zip(answer["jobDescriptors"], texts, strict=True))

    def _work(self, client, *_):
        jobs = client.dequeueJobs(queueName=QUEUE, limit=5).get("jobs", {})
        done = list(jobs)[::2]  # the others stay in progress, as with a worker that is slow
        client.ackDequeuedJobs(queueName=QUEUE, jobsSucceeded=[{"jobDescriptor": name} for name in done])
        self.acked |= set(done)


def looked_up(client, names):
    """Return the jobs; None while a shard is not back, for a connection may have been cut a moment ago."""
    try:
        return client.lookupJobs(jobDescriptors=names, includeBody=True)
    except DeclaredError:
        return None


def check(server, load):
    assert load.faults == []
    names = list(load.enqueued)
    with server.client() as client:
        for start in range(0, len(names), 1000):
            some = names[start : start + 1000]
            found = wait_for(lambda some=some: looked_up(client, some))
            for name in some:
                assert name in found, f"job {load.enqueued[name]} was lost"
                assert found[name]["body"] == body(load.enqueued[name])
                if name in load.acked:
                    assert found[name]["jobState"] == 2, "a job with an answered ack came back"


@pytest.fixture
def services(tmp_path):
    """Three servers that sync each write."""
    services = [RedisService(tmp_path / f"redis{n}", appendonly="yes", appendfsync="always") for n in (1, 2, 3)]
    yield services
    for service in services:
        service.close()


@pytest.fixture
def start(tmp_path):
    servers = []

    def start(services, **settings):
        servers.append(server_on(tmp_path, services, **settings))
        with servers[-1].client() as client:
            client.createQueue(name=QUEUE)
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.mark.timeout(300)
def test_a_redis_that_is_killed_again_and_again_loses_nothing(services, start):
    server = start(services[:1])
    with Load(server) as load:
        for _ in range(KILLS):
            load.grows(by=50)
            services[0].restart()
        load.grows(by=50)
    assert load.failures, "nobody noticed that it was away"
    assert load.longest_seconds < 15
    check(server, load)


@pytest.mark.timeout(300)
def test_a_redis_that_stands_still_holds_nobody_for_long(services, start):
    server = start(services[:1])
    with Load(server) as load:
        load.grows(by=50)
        services[0].stop()
        time.sleep(6)
        services[0].go_on()
        load.grows(by=50)
    assert load.failures
    assert load.longest_seconds < 15
    check(server, load)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("leave", "come_back"),
    [(RedisService.kill, RedisService.start), (RedisService.stop, RedisService.go_on)],
    ids=["killed", "stopped"],
)
def test_two_shards_of_three_go_on_without_the_third(services, start, leave, come_back):
    server = start(services)
    with Load(server) as load:
        load.grows(by=50)
        leave(services[2])
        wait_for(lambda: "pinlater_ill_shards 1" in server.page("/metrics")[1])
        before = set(load.enqueued)
        load.grows(by=200)
        later = {JobDescriptor.parse(name).shard for name in load.enqueued.keys() - before}
        assert later <= {"1", "2"}
        come_back(services[2])
        wait_for(lambda: any(":s3:" in name for name in load.enqueued.keys() - before))
    check(server, load)


@pytest.mark.timeout(300)
def test_connections_that_are_cut_again_and_again_lose_and_double_nothing(services, start):
    server = start(services[:1], SERVER_PROCESSES="2")
    with Load(server) as load, services[0].client() as client:
        for _ in range(60):
            load.grows(by=5)
            client.client_kill_filter(skipme=True)
    check(server, load)
    refused = sum(load.failures.values())

    def count():
        with suppress(DeclaredError), server.client() as client:  # a process may still take the shard for dead
            return sum(client.getJobCount(queueName=QUEUE, jobState=state) for state in range(4))

    stored = wait_for(count)
    # An enqueue that failed may have been carried out, once; it had at most as many jobs as there are lanes.
    assert len(load.enqueued) <= stored <= len(load.enqueued) + refused * LANES


@pytest.mark.timeout(300)
def test_shards_come_and_go_while_a_server_runs(services, start, tmp_path):
    server = start(services[:2])
    with Load(server) as load:
        load.grows(by=50)
        write_shards(tmp_path / "shards.json", services, dequeue_only=("1",))
        wait_for(lambda: any(":s3:" in name for name in list(load.enqueued)), seconds=60)
        time.sleep(1)
        before = set(load.enqueued)
        load.grows(by=100)
        assert {JobDescriptor.parse(name).shard for name in load.enqueued.keys() - before} == {"2", "3"}
    assert not load.failures
    check(server, load)


def test_a_file_of_shards_that_is_missing_ends_the_start(tmp_path):
    with pytest.raises(AssertionError, match="cannot be read"):
        ServerProcess(tmp_path / "server", PINLATER_BACKEND="redis", BACKEND_CONFIG=str(tmp_path / "none.json"))
