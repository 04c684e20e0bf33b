"""Servers that offer each other jobs, killed and frozen in the middle: nothing is lost or handed out twice.

Jobs are stored at one server, where nobody waits for them; dequeues wait at the others, so that each job is offered.
"""

import itertools
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest

from pinlater import Client
from tests.support.crowd import Crowd
from tests.support.server import ServerProcess
from tests.support.shared_stores import mysql_settings

QUEUE = "offered"
SERVERS = 4
CONSUMERS = 9
JOBS = 500
PAUSE_SECONDS = 0.1
"""Between enqueues of five jobs: so rarely that all dequeues wait."""

LEASE_SECONDS = 8.0
FROZEN_SECONDS = (0.05, 1.5)
"""Longer than servers wait for an answer, and shorter than the leases of those who hold jobs."""

LATEST_SECONDS = 20.0
"""No job waits for longer, busy as the machine may be: a queue is taken for empty for half a minute."""


class Store:
    """Servers on a store, and faults of those at which dequeues wait."""

    def __init__(self, folder):
        settings = mysql_settings(folder, shards=2)
        with ThreadPoolExecutor() as pool:
            self.servers = list(
                pool.map(lambda number: ServerProcess(folder / str(number), **settings), range(SERVERS))
            )
        self.lot = random.Random(7)
        self.faults = 0

    def kill(self):
        victim = self.lot.choice(self.servers[1:])
        victim.kill()
        victim.start()

    def freeze(self):
        victim = self.lot.choice(self.servers[1:])
        with suppress(psutil.NoSuchProcess):
            master = psutil.Process(victim.process.pid)
            family = [master, *master.children(recursive=True)]
            for process in family:
                process.send_signal(signal.SIGSTOP)
            time.sleep(self.lot.uniform(*FROZEN_SECONDS))
            for process in family:
                process.send_signal(signal.SIGCONT)

    def cause_faults(self, is_over):
        """Kill and freeze servers, one after the other."""
        for fault in itertools.cycle((self.freeze, self.kill)):
            if is_over():
                return
            fault()
            self.faults += 1

    def end(self):
        for server in self.servers:
            assert server.stop() == 0
            assert "Traceback" not in server.log


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    yield store
    store.end()


def test_nothing_is_lost_or_handed_out_twice(store):
    with Client(store.servers[0].address) as client:
        client.create_queue(QUEUE)
    storing, *others = (server.address for server in store.servers)
    addresses = [storing, *[",".join(others)] * CONSUMERS]  # whoever loses its server goes on at the next
    crowd = Crowd(
        addresses,
        QUEUE,
        producers=1,
        consumers=CONSUMERS,
        jobs=JOBS,
        wait=30.0,
        lease=LEASE_SECONDS,
        pause=PAUSE_SECONDS,
    )
    store.cause_faults(lambda: crowd.faults or len(crowd.stored) == JOBS)
    crowd.join(seconds=90)
    assert crowd.longest_wait < LATEST_SECONDS
    assert store.faults > 5
