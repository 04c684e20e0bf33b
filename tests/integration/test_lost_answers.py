"""Calls whose answer is lost when the server has carried them out: sent again, they are done once and counted."""

import asyncio
import contextlib
import time
from functools import partial

import pytest

from pinlater import AsyncClient, Client, Job, JobState
from pinlater.client import Ack, JobInfo, NewJob
from tests.support.lossy_proxy import LossyProxy
from tests.support.server import ServerProcess
from tests.support.stores import SHARED_STORES, STORES
from tests.support.tool import run_tool

KINDS = {
    **{name: kind.settings for name, kind in STORES.items()},
    **{f"{name}, two shards": partial(settings, shards=2) for name, settings in SHARED_STORES.items()},
}


class Ping(Job, queue="pings"):
    number: int = 0


class World:
    """A server on a store, and a proxy in front of it that loses answers.

    Attributes:
        direct: a client that loses nothing.
        proxy: in front of the server.
        address: of the proxy.
    """

    def __init__(self, folder, settings):
        self.server = ServerProcess(folder / "server", **settings)
        self.proxy = LossyProxy(self.server.port)
        self.address = f"127.0.0.1:{self.proxy.port}"
        self.direct = Client(self.server.address)

    def end(self):
        self.direct.close()
        self.proxy.close()
        self.server.stop()

    def counts(self):
        """Return how many jobs are pending, and how many have failed."""
        return self.direct.count("pings", JobState.PENDING), self.direct.count("pings", JobState.FAILED)

    def failed(self, number):
        """Bring so many jobs to their end; return their descriptors."""
        names = self.direct.enqueue_jobs("pings", [NewJob(b"%d" % at) for at in range(number)])
        left = number
        while left:
            jobs = self.direct.dequeue_jobs("pings", left)
            self.direct.ack("pings", failed=[Ack(job.descriptor, job.claim, final=True) for job in jobs])
            left -= len(jobs)
        return names

    def record(self):
        now_ms = int(time.time() * 1000)  # or it would be collected
        return JobInfo("pings:s9:p1:1", JobState.FAILED, 3, 0, "", now_ms, now_ms, now_ms, body=b"body")


@pytest.fixture(scope="module", params=KINDS)
def running(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    world = World(folder, KINDS[request.param](folder))
    yield world
    world.end()


@pytest.fixture
def world(running):
    """The same with an empty queue."""
    if "pings" in running.direct.queue_names():
        running.direct.delete_queue("pings", "open sesame")
    running.direct.create_queue("pings")
    yield running
    running.proxy.lose(b"", 0)


class Awaiting:
    """What a program with an event loop does."""

    def __init__(self, address):
        self._address = address

    def __getattr__(self, verb):
        async def call(*arguments, **options):
            async with AsyncClient(self._address) as client:
                return await getattr(client, verb)(*arguments, **options)

        return lambda *arguments, **options: asyncio.run(call(*arguments, **options))


@pytest.fixture(params=["blocking", "asyncio"])
def client(request, world):
    if request.param == "asyncio":
        yield Awaiting(world.address)
        return
    with Client(world.address) as client:
        yield client


@contextlib.contextmanager
def losing(world, method, count=2):
    """Lose the answers to the next calls of a method, and check that some were: several may come at once."""
    before = world.proxy.lost
    world.proxy.lose(method, count)
    yield
    assert world.proxy.lost > before


def test_an_enqueue_stores_one_job(world, client):
    with losing(world, b"enqueueJobs"):
        handle = client.enqueue(Ping(number=1))
    assert (
        world.direct.lookup([handle.descriptor], include_body=True)[handle.descriptor].body
        == b'{"job":"Ping","number":1}'
    )
    with losing(world, b"enqueueJobs"):
        names = client.enqueue_jobs("pings", [NewJob(b"a"), NewJob(b"b", priority=2)])
    assert len(set(names)) == 2
    assert world.counts() == (3, 0)


def test_cancelled_jobs_are_counted_although_the_first_try_has_cancelled_them(world, client):
    waiting, running = world.direct.enqueue_jobs("pings", [NewJob(b"a", priority=2), NewJob(b"b")])
    world.direct.dequeue_jobs("pings", 1)
    with losing(world, b"cancelJobs"):
        assert client.cancel_these("pings", [waiting, running]) == 2
    assert all(info.is_cancelled for info in world.direct.lookup([waiting, running]).values())


def test_an_enqueue_finds_the_first_also_when_that_has_ended(world, client):
    def end():
        (job,) = world.direct.dequeue_jobs("pings", 1, wait=10)
        world.direct.ack("pings", [Ack(job.descriptor, job.claim)])

    world.proxy.lose(b"enqueueJobs", before_cut=end)
    handle = client.enqueue(Ping(number=1), unique="once")
    assert world.direct.lookup([handle.descriptor])[handle.descriptor].state is JobState.SUCCEEDED
    assert world.counts() == (0, 0)


def test_a_bulk_enqueue_stores_each_job_once(world, client):
    with losing(world, b"enqueueJobs", 3):
        assert client.enqueue_many((Ping(number=number) for number in range(1000)), batch_size=100) == 1000
    assert world.counts() == (1000, 0)


def test_an_import_stores_each_job_once(world, client):
    with losing(world, b"importJobs"):
        names = client.import_jobs("pings", [world.record(), world.record()])
    assert len(set(names)) == 2
    assert world.counts() == (0, 2)


def test_a_retry_moves_as_many_as_it_says(world, client):
    names = world.failed(30)
    with losing(world, b"retryFailedJobs"):
        assert client.retry_failed("pings", limit=10) == 10
    assert world.counts() == (10, 20)
    with losing(world, b"retryFailedJobs"):
        assert client.retry_failed("pings", limit=100) == 20
    assert client.retry_these("pings", names) == 0


def test_a_deletion_removes_as_many_as_it_says(world, client):
    names = world.failed(30)
    with losing(world, b"deleteJobs"):
        assert client.delete_jobs("pings", JobState.FAILED, limit=10) == 10
    assert world.counts() == (0, 20)
    left = [name for name in names if name in world.direct.lookup(names)]
    with losing(world, b"deleteJobs"):
        assert client.delete_these("pings", left[:5], JobState.FAILED) == 5
    with losing(world, b"retryFailedJobs"):
        assert client.retry_these("pings", left[5:]) == 15
    assert world.counts() == (15, 0)


def test_the_tool_does_what_it_says(world):
    def tool(*words):
        status, out, err = run_tool(*words, PINLATER_SERVERS=world.address)
        assert (status, err) == (0, "")
        return out

    with losing(world, b"enqueueJobs", 1):
        tool("enqueue", "pings", '{"job": "Ping"}')
    assert world.counts() == (1, 0)
    world.failed(10)
    with losing(world, b"retryFailedJobs", 1):
        assert "4 jobs" in tool("retry-failed", "pings", "--limit", "4")
    with losing(world, b"deleteJobs", 1):
        assert "5 jobs" in tool("delete-jobs", "pings", "--state", "failed", "--limit", "5", "--yes")
    assert sum(world.counts()) == 6
