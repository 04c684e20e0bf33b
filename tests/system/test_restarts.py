"""A server that restarts, dies or is replaced under those who enqueue: no call fails, and each job is there once."""

import asyncio
import contextlib
import itertools
import os
import signal
import threading
import time
from functools import partial

import pytest

from pinlater import AsyncClient, Client, Job, JobState
from pinlater.client import Ack, NewJob
from tests.support.server import ServerProcess, wait_for
from tests.support.stores import SHARED_STORES

RELOADS = 5
PAUSE_SECONDS = 0.05
"""Between the calls of one lane: each reload meets many calls, and the test does not eat the machine."""
LANES = 2
TIMEOUT_SECONDS = 60
"""Of a call; a machine that is busy takes its time to start a server."""

pytestmark = pytest.mark.timeout(300)


class Note(Job, queue="notes"):
    text: str


class Callers:
    """Programs that enqueue in every way, until they are told to stop; what they were told, and what failed.

    Args:
        address: of the server.
        working: whether some take jobs out of another queue, too. A call that does so cannot be made again when its
            answer is lost, so none may be lost.
    """

    def __init__(self, address, *, working):
        self._address = address
        self.stored = []
        self.failures = []
        self.rounds = {}
        self._stop = threading.Event()
        acts = [self._enqueue] * LANES + [self._enqueue_many, self._enqueue_in_tasks] + [self._work] * working * LANES
        self._client = Client(address, timeout=TIMEOUT_SECONDS)
        self._threads = [threading.Thread(target=self._run, args=each) for each in enumerate(acts)]
        for thread in self._threads:
            thread.start()

    def _run(self, lane, act):
        self.rounds[lane] = 0
        try:
            with contextlib.closing(act(lane)) as rounds:
                for texts in rounds:
                    self.stored += texts
                    self.rounds[lane] += 1
                    if self._stop.wait(PAUSE_SECONDS):
                        return
        except BaseException as failure:
            self.failures.append(failure)
            raise

    def _enqueue(self, lane):
        for number in itertools.count():
            text = f"{lane}.{number}"
            self._client.enqueue(Note(text=text))
            yield [text]

    def _enqueue_many(self, lane):
        for number in itertools.count():
            texts = [f"{lane}.{number}.{at}" for at in range(20)]
            self._client.enqueue_many((Note(text=text) for text in texts), batch_size=10)
            yield texts

    def _enqueue_in_tasks(self, lane):
        client = AsyncClient(self._address, timeout=TIMEOUT_SECONDS)
        with asyncio.Runner() as runner, _closing(client, runner):
            for number in itertools.count():
                texts = [f"{lane}.{number}.{at}" for at in range(8)]
                runner.run(_all(client.enqueue(Note(text=text)) for text in texts))
                yield texts
                texts = [f"{lane}.{number}.many.{at}" for at in range(20)]
                runner.run(client.enqueue_many([Note(text=text) for text in texts], batch_size=10))
                yield texts

    def _work(self, lane):
        queue = f"work{lane}"
        self._client.create_queue(queue)
        while True:
            self._client.enqueue_jobs(queue, [NewJob(b"x") for _ in range(5)])
            jobs = self._client.dequeue_jobs(queue, 5)
            self._client.ack(queue, failed=[Ack(job.descriptor) for job in jobs])
            yield []

    def go_on(self):
        """Wait until each has called a few times more."""
        before = dict(self.rounds)
        wait_for(lambda: self.failures or all(self.rounds[lane] >= before[lane] + 2 for lane in before), 120)

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_SECONDS)
        self._client.close()


@contextlib.contextmanager
def _closing(client, runner):
    try:
        yield
    finally:
        runner.run(client.close())


async def _all(calls):
    await asyncio.gather(*calls)


def texts_in(server):
    """Return what the jobs that are stored say, sorted.

    The last ones may not be due yet for the process that is asked: its time may be behind that of the one which stored
    them. What becomes due meanwhile is found twice.
    """
    with Client(server.address, timeout=TIMEOUT_SECONDS) as client:
        found = [info for future in (True, False) for info in client.scan_all("notes", JobState.PENDING, future=future)]
        names = list(dict.fromkeys(info.descriptor for info in found))  # bodies come with a lookup
        found = []
        for start in range(0, len(names), 1000):
            jobs = client.lookup(names[start : start + 1000], include_body=True).values()
            found += [job.body.decode().split('"')[-2] for job in jobs]
    return sorted(found)


def _with_processes(settings, folder):
    return settings(folder) | {"SERVER_PROCESSES": 2}


STORES = {
    "sqlite": lambda _: {},
    **{f"{name}, 2 processes": partial(_with_processes, settings) for name, settings in SHARED_STORES.items()},
}


@pytest.fixture(params=STORES)
def server(request, tmp_path):
    server = ServerProcess(tmp_path / "server", **STORES[request.param](tmp_path))
    yield server
    if server.process.poll() is None:
        server.kill()


@pytest.fixture
def call(server):
    """Start callers of the server; in the end, compare what they were told with what is there."""
    started = []

    def call(*, working=False):
        started.append(Callers(server.address, working=working))
        wait_for(lambda: len(started[0].rounds) == len(started[0]._threads))
        started[0].go_on()
        return started[0]

    yield call
    callers = started[0]
    callers.end()
    assert callers.failures == []
    assert texts_in(server) == sorted(callers.stored)


def test_a_server_that_stops_and_comes_back_after_two_seconds(server, call):
    callers = call()
    for _ in range(2):
        assert server.stop() == 0
        time.sleep(2)  # longer than a few quick tries take
        server.start()
        callers.go_on()


def test_a_server_that_is_killed_and_comes_back_after_two_seconds(server, call):
    callers = call()
    for _ in range(2):
        server.kill()
        time.sleep(2)
        server.start()
        callers.go_on()


def test_reloads_fail_no_call(server, call):
    callers = call(working=True)
    for _ in range(RELOADS):
        before = {child.pid for child in server.children()}
        os.kill(server.process.pid, signal.SIGHUP)
        wait_for(lambda pids=before: _is_replaced(server, pids))
    callers.go_on()


def _is_replaced(server, pids):
    now = {child.pid for child in server.children()}
    return len(now) == len(pids) and not now & pids
