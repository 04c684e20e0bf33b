"""A queue is created by its first jobs, unless the server's settings forbid it."""

import threading

import pytest

from pinlater import Client, Job, JobState
from pinlater.client import Move, NewJob
from pinlater.errors import QueueNameInvalid, QueueNotFound
from tests.support.server import ServerProcess
from tests.support.stores import SHARED_STORES

STORES = ["sqlite", *SHARED_STORES]


class Greet(Job, queue="greetings"):
    name: str

    def run(self, context):
        raise AssertionError("nobody runs it here")


def start(folder, store, **settings):
    shared = SHARED_STORES[store](folder) if store in SHARED_STORES else {}
    return ServerProcess(folder / "server", **shared, **settings)


@pytest.fixture(scope="module", params=STORES)
def address(request, tmp_path_factory):
    server = start(tmp_path_factory.mktemp(request.param), request.param)
    yield server.address
    assert server.stop() == 0
    assert "Traceback" not in server.log


def test_the_first_enqueue_creates_the_queue(address):
    with Client(address) as client:
        handle = client.enqueue(Greet(name="Ada"))
        assert client.enqueue_many([Greet(name="Grace"), Greet(name="Joan")], queue="in_bulk") == 2
        assert {"greetings", "in_bulk"} <= client.queue_names()
        assert handle.status().state is JobState.PENDING
        assert client.count("in_bulk", JobState.PENDING) == 2


def test_many_first_enqueues_at_once_all_succeed(address):
    stored, barrier = [], threading.Barrier(8)

    def enqueue():
        with Client(address) as client:
            barrier.wait()
            stored.extend(client.enqueue_jobs("at_once", [NewJob(b"x")]))

    threads = [threading.Thread(target=enqueue) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(stored)) == 8
    with Client(address) as client:
        assert client.count("at_once", JobState.PENDING) == 8


def test_looking_and_a_bad_name_create_nothing(address):
    with Client(address) as client:
        with pytest.raises(QueueNotFound):
            client.count("absent", JobState.PENDING)
        with pytest.raises(QueueNotFound):
            client.dequeue_jobs("absent", 1)
        with pytest.raises(QueueNameInvalid):
            client.enqueue_jobs("not-a-name", [NewJob(b"x")])
        assert "absent" not in client.queue_names()


@pytest.mark.parametrize("store", STORES)
def test_a_server_may_leave_it_to_people(tmp_path, store):
    server = start(tmp_path, store, QUEUE_AUTO_CREATE="false")
    try:
        with Client(server.address) as client:
            with pytest.raises(QueueNotFound, match="create it first"):
                client.enqueue(Greet(name="Ada"))
            client.create_queue("here")
            names = client.enqueue_jobs("here", [NewJob(b"x")])
            with pytest.raises(QueueNotFound, match="nowhere"):
                client.move_these(Move("here", "nowhere", JobState.PENDING), names)
            assert client.count("here", JobState.PENDING) == 1
            assert client.queue_names() == {"here"}
    finally:
        assert server.stop() == 0
