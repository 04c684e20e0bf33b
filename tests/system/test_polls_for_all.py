"""Servers of a MySQL store that poll for each other: jobs that nobody announces are found whoever dies or hangs.

How soon, tests/unit/server/broker/test_polls_for_all.py measures in virtual time. Here it is enough that it is before a
queue is no longer taken for empty, which takes half a minute.
"""

import asyncio
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest

from pinlater import Client
from pinlater.client import Ack
from pinlater.errors import QueueNotFound
from pinlater.protocol.messages import SUCCEEDED
from pinlater.server.backends.records import JobFilter
from tests.support.bench import new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, make_fleet
from tests.support.server import ServerProcess
from tests.support.shared_stores import mysql_settings
from tests.system.worker_program import wait_for

SERVERS, SHARDS = 3, 2
FOUND_SECONDS = 15.0
WAIT_SECONDS = 120
_PARKED = re.compile(r"^pinlater_parked_dequeues(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class Fleet:
    """Servers on one store, and ways past them."""

    def __init__(self, folder, **settings):
        store = mysql_settings(folder, shards=SHARDS)
        self._prefix = store["MYSQL_DATABASE_PREFIX"]
        with ThreadPoolExecutor() as pool:
            self.servers = list(
                pool.map(lambda name: ServerProcess(folder / name, **store, **settings), map(str, range(SERVERS)))
            )
        self._pool = ThreadPoolExecutor(max_workers=32)

    def create_queues(self, queues):
        with Client(self.servers[0].address) as client:
            for queue in queues:
                client.create_queue(queue)

    def past_servers(self, call):
        """Return what ``call`` returns, given the store."""

        async def whole():
            fleet = make_fleet([endpoint_of(shared_service())] * SHARDS, None, prefix=self._prefix)
            try:
                return await call(fleet)
            finally:
                await fleet.close()

        return asyncio.run(whole())

    def store_unheard(self, queue):
        """Store a job of which no server hears; return its descriptor."""
        [name] = self.past_servers(lambda store: store.enqueue_jobs(queue, [new_job()]))
        return name

    def count(self, queue, state):
        return self.past_servers(lambda store: store.count_jobs(queue, JobFilter(state)))

    def park(self, number, queue):
        """Return a dequeue that waits at a server; its job is acknowledged."""
        before = self._parked(number)
        waiting = self._pool.submit(self._dequeue, number, queue)
        wait_for(lambda: self._parked(number) > before)
        return waiting

    def _parked(self, number):
        _, page = self.servers[number].page("/metrics")
        return sum(map(float, _PARKED.findall(page)))

    def _dequeue(self, number, queue):
        with Client(self.servers[number].address, retries=0) as client:
            jobs = client.dequeue_jobs(queue, 1, wait=WAIT_SECONDS, lease=60)
            client.ack(queue, [Ack(job.descriptor, job.claim) for job in jobs])
            return [job.descriptor for job in jobs]

    def send(self, number, name):
        """Send a signal to all processes of a server."""
        master = psutil.Process(self.servers[number].process.pid)
        for process in (master, *master.children(recursive=True)):
            process.send_signal(name)

    @contextmanager
    def frozen(self, *numbers):
        for number in numbers:
            self.send(number, signal.SIGSTOP)
        try:
            yield
        finally:
            for number in numbers:
                self.send(number, signal.SIGCONT)

    @contextmanager
    def dead(self, *numbers):
        for number in numbers:
            self.servers[number].kill()
        try:
            yield
        finally:
            for number in numbers:
                self.servers[number].start()

    def end(self):
        for server in self.servers:
            assert server.stop() == 0
            assert "Traceback" not in server.log
        self._pool.shutdown()


@pytest.fixture
def make_servers(tmp_path):
    fleets = []

    def make(**settings):
        fleets.append(Fleet(tmp_path, **settings))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.end()


def find(fleet, parked, queue):
    """Store a job that no server hears of; the dequeue that waits for it has it soon."""
    name = fleet.store_unheard(queue)
    assert parked[queue].result(FOUND_SECONDS) == [name]
    assert fleet.count(queue, SUCCEEDED) == 1


@pytest.mark.parametrize("notifies", ["true", "false"], ids=["they tell each other", "they cannot"])
def test_jobs_that_nobody_announces_are_found_whoever_dies_or_hangs(make_servers, notifies):
    fleet = make_servers(MYSQL_NOTIFY_SERVERS=notifies)
    queues = [*(f"idle{number}" for number in range(8)), "gone"]
    fleet.create_queues(queues)
    parked = {queue: fleet.park(0, queue) for queue in queues}
    find(fleet, parked, "idle0")
    for number, others in enumerate([(1,), (2,), (1, 2)], 1):
        with fleet.frozen(*others):
            find(fleet, parked, f"idle{number}")
    for number, others in enumerate([(1,), (2,), (1, 2)], 4):
        with fleet.dead(*others):
            find(fleet, parked, f"idle{number}")
    find(fleet, parked, "idle7")
    with Client(fleet.servers[1].address) as client:  # by now, server 0 has polled no queue itself for long
        client.delete_queue("gone", "open sesame")
    with pytest.raises(QueueNotFound):
        parked["gone"].result(FOUND_SECONDS)


def test_a_server_that_was_frozen_finds_jobs_whatever_it_was_sent_meanwhile(make_servers):
    fleet = make_servers()
    here, there = ([f"{name}{number}" for number in range(4)] for name in ("idle", "other"))
    fleet.create_queues([*here, *there])
    parked = {queue: fleet.park(0, queue) for queue in here}
    parked |= {queue: fleet.park(1, queue) for queue in there}
    for queue, other in zip(here, there, strict=True):
        with fleet.frozen(0):  # meanwhile it is sent that its queue is empty
            find(fleet, parked, other)
            name = fleet.store_unheard(queue)
        assert parked[queue].result(FOUND_SECONDS) == [name]
