"""Unique keys while several clients enqueue and take jobs, at two servers of a store with two shards."""

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from pinlater import Client, RawJob
from pinlater.client import Ack
from tests.support.server import ServerProcess
from tests.support.stores import SHARED_STORES

QUEUE = "looks"
KEYS = ("a", "b", "c")
PRODUCERS, CONSUMERS = 3, 2
SERVERS = {
    "sqlite": (lambda _: {}, 1),
    **{f"{name}, two shards": (partial(settings, shards=2), 2) for name, settings in SHARED_STORES.items()},
}


class Race:
    """Threads that change what jobs look at, enqueue them and take them, at all servers of one store."""

    def __init__(self, servers):
        self._servers = servers
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._versions = dict.fromkeys(KEYS, 0)
        self._seen = defaultdict(list)

    def run(self, options, changes=120):
        """Let all work at once; return the versions that were seen, by key."""
        with ThreadPoolExecutor(max_workers=CONSUMERS + PRODUCERS) as pool:
            consumers = [pool.submit(self._consume, at) for at in range(CONSUMERS)]
            producers = [pool.submit(self._produce, at, options, changes) for at in range(PRODUCERS)]
            try:
                for producer in producers:
                    producer.result()
            finally:
                self._is_over.set()
            for consumer in consumers:
                consumer.result()
        return self._seen

    def _client(self, at):
        return Client(self._servers[at % len(self._servers)].address)

    def _produce(self, at, options, changes):
        with self._client(at) as client:
            for number in range(changes):
                key = KEYS[number % len(KEYS)]
                with self._lock:
                    self._versions[key] += 1
                client.enqueue(RawJob(body=key.encode()), queue=QUEUE, unique=key, **options)

    def _consume(self, at):
        with self._client(at) as client:
            while True:
                is_over = self._is_over.is_set()
                jobs = client.dequeue_jobs(QUEUE, 10, wait=0.05)
                for job in jobs:
                    key = job.body.decode()
                    self._seen[key].append(self._versions[key])
                time.sleep(0.01)  # the run; changes come meanwhile
                if jobs:
                    assert len({job.body for job in jobs}) == len(jobs), "two jobs of a key have waited"
                    client.ack(QUEUE, [Ack(job.descriptor, job.claim) for job in jobs])
                elif is_over:
                    break


@pytest.fixture(scope="module", params=SERVERS)
def servers(request, tmp_path_factory):
    make_settings, number = SERVERS[request.param]
    folder = tmp_path_factory.mktemp("servers")
    settings = make_settings(folder)
    servers = [ServerProcess(folder / f"server{at}", **settings) for at in range(number)]
    yield servers
    for server in servers:
        assert server.stop() == 0
        assert "Traceback" not in server.log


@pytest.fixture
def race(servers):
    with Client(servers[0].address) as client:
        client.create_queue(QUEUE)
        yield Race(servers)
        client.delete_queue(QUEUE, "open sesame")


@pytest.mark.parametrize("action", ["keep", "replace", "debounce"])
def test_no_change_is_lost_and_one_job_waits(race, action):
    seen = race.run({"unique_until": "started", "on_duplicate": action})
    assert {key: max(versions) for key, versions in seen.items()} == dict.fromkeys(KEYS, 120)
    assert sum(map(len, seen.values())) < 360, "no job was a duplicate"


def test_one_job_is_stored_in_a_period(race):
    seen = race.run({"unique_until": "started", "unique_for": 3600})
    assert {key: len(versions) for key, versions in seen.items()} == dict.fromkeys(KEYS, 1)
