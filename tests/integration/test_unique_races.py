"""Unique keys while several processes enqueue and take jobs, at two servers of a store with two shards."""

import subprocess
import sys
from collections import defaultdict
from functools import partial

import pytest

from pinlater import Client
from tests.support.server import ROOT, ServerProcess
from tests.support.stores import SHARED_STORES

pytestmark = pytest.mark.timeout(120)

KEYS = ("a", "b", "c")
SERVERS = {
    "sqlite": (lambda _: {}, 1),
    **{f"{name}, two shards": (partial(settings, shards=2), 2) for name, settings in SHARED_STORES.items()},
}

PRODUCER = """
import sys

from pinlater import Client, RawJob

address, folder, options, changes, keys = sys.argv[1], sys.argv[2], eval(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
with Client(address) as client:
    for number in range(changes):
        key = keys[number % len(keys)]
        with open(f"{folder}/{key}", "ab") as file:  # its size is the version of what the jobs look at
            file.write(b"x")
        client.enqueue(RawJob(body=key.encode()), queue="looks", unique=key, **options)
"""

CONSUMER = """
import os, sys, time

from pinlater import Client
from pinlater.client import Ack

address, folder = sys.argv[1:]
with Client(address) as client:
    while True:
        is_over = os.path.exists(f"{folder}/over")
        jobs = client.dequeue_jobs("looks", 10, wait=0.05)
        for job in jobs:
            print(job.body.decode(), os.path.getsize(f"{folder}/{job.body.decode()}"), flush=True)
        time.sleep(0.01)  # the run; changes come meanwhile
        if jobs:
            assert len({job.body for job in jobs}) == len(jobs), "two jobs of a key have waited"
            client.ack("looks", [Ack(job.descriptor, job.claim) for job in jobs])
        elif is_over:
            break
"""


class Race:
    """Servers on one store."""

    def __init__(self, kind, folder):
        make_settings, number = SERVERS[kind]
        self.folder = folder
        for key in KEYS:
            (folder / key).touch()
        settings = make_settings(folder)
        self.servers = [ServerProcess(folder / f"server{at}", **settings) for at in range(number)]
        with Client(self.servers[0].address) as client:
            client.create_queue("looks")

    def start(self, program, at, *arguments):
        server = self.servers[at % len(self.servers)]
        command = [sys.executable, "-c", program, server.address, str(self.folder), *map(str, arguments)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def run(self, options, changes=120):
        """Let processes change what the jobs look at, enqueue and take jobs; return the versions that were seen."""
        consumers = [self.start(CONSUMER, at) for at in range(2)]
        producers = [self.start(PRODUCER, at, options, changes, *KEYS) for at in range(3)]
        for producer in producers:
            producer.communicate()
        assert [producer.returncode for producer in producers] == [0, 0, 0]
        (self.folder / "over").touch()
        seen = defaultdict(list)
        for consumer in consumers:
            for line in consumer.communicate()[0].splitlines():
                key, version = line.split()
                seen[key].append(int(version))
        assert [consumer.returncode for consumer in consumers] == [0, 0]
        return seen

    def end(self):
        for server in self.servers:
            assert server.stop() == 0
            assert "Traceback" not in server.log


@pytest.fixture(params=SERVERS)
def race(request, tmp_path):
    race = Race(request.param, tmp_path)
    yield race
    race.end()


@pytest.mark.parametrize("action", ["keep", "replace", "debounce"])
def test_no_change_is_lost_and_one_job_waits(race, action):
    seen = race.run({"unique_until": "started", "on_duplicate": action})
    assert {key: max(versions) for key, versions in seen.items()} == dict.fromkeys(KEYS, 120)
    assert sum(map(len, seen.values())) < 360, "no job was a duplicate"


def test_one_job_is_stored_in_a_period(race):
    seen = race.run({"unique_until": "started", "unique_for": 3600})
    assert {key: len(versions) for key, versions in seen.items()} == dict.fromkeys(KEYS, 1)
