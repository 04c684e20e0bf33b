"""Queues are paused and limited over the wire; the settings stay, and a file wins over them."""

import json
import threading
import time

import pytest

from pinlater.client import Ack, Client, NewJob, QueueSettings
from pinlater.errors import DequeueRateLimited, QueueNotFound, UnknownError
from pinlater.model.queues import FOLLOWS_LOAD
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    limits = folder / "limits.json"
    limits.write_text(json.dumps({"queues": [{"name": "filed", "queueConfig": {"maxJobsPerSecond": 7}}]}))
    with ServerProcess(folder / "server", QUEUE_CONFIG_FILE_PATH=limits) as server:
        yield server


@pytest.fixture
def client(server):
    with Client(f"127.0.0.1:{server.port}") as client:
        client.create_queue("pins")
        yield client
        client.delete_queue("pins", "open sesame")


def put(client, count=1):
    return client.enqueue_jobs("pins", [NewJob(b"x") for _ in range(count)])


class Waiting:
    """A dequeue that waits on a connection of its own."""

    def __init__(self, server, limit=10):
        self.jobs = []
        self._thread = threading.Thread(target=self._wait, args=(server.port, limit))
        self._thread.start()
        time.sleep(0.2)
        assert self._thread.is_alive()

    def _wait(self, port, limit):
        with Client(f"127.0.0.1:{port}") as client:
            self.jobs = client.dequeue_jobs("pins", limit, wait=120)

    def result(self):
        self._thread.join(60)  # far less than it may wait
        assert not self._thread.is_alive()
        return self.jobs


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(server, client):
    put(client, 2)
    client.change_queue("pins", paused=True)
    with pytest.raises(DequeueRateLimited, match="paused"):
        client.dequeue_jobs("pins", 1)
    put(client)
    waiting = Waiting(server)
    client.change_queue("pins", paused=False)
    assert len(waiting.result()) == 3


def test_no_more_run_at_once_than_may_and_the_next_starts_when_one_ends(server, client):
    client.change_queue("pins", max_running=2)
    put(client, 5)
    first, second = client.dequeue_jobs("pins", 10)
    assert client.dequeue_jobs("pins", 10) == []
    waiting = Waiting(server)
    client.ack("pins", [Ack(first.descriptor, first.claim)])
    assert len(waiting.result()) == 1
    waiting = Waiting(server)
    client.ack("pins", failed=[Ack(second.descriptor, second.claim, retry_delay=3600)])
    assert len(waiting.result()) == 1
    client.change_queue("pins", max_running=0)
    assert len(client.dequeue_jobs("pins", 10)) == 1


def test_jobs_come_at_their_rate(client):
    put(client, 100)
    client.change_queue("pins", jobs_per_second=10)
    began, taken = time.monotonic(), 0
    while taken < 15:  # 10 are saved up
        taken += len(client.dequeue_jobs("pins", 5, wait=10))
    assert time.monotonic() - began > 0.25


def test_settings_are_shown_and_survive_a_killed_server(server, client):
    client.create_queue("filed")
    client.change_queue("pins", paused=True, jobs_per_second=2.5, max_running=3)
    client.change_queue("filed", paused=True, max_running=4)
    wanted = {
        "pins": QueueSettings(is_paused=True, jobs_per_second=2.5, max_running=3),
        "filed": QueueSettings(jobs_per_second=7, max_running=4, is_from_file=True),
    }
    assert client.queue_settings() == wanted
    server.kill()
    server.start()
    assert client.queue_settings() == wanted
    with pytest.raises(DequeueRateLimited):
        client.dequeue_jobs("pins", 1)
    assert client.dequeue_jobs("filed", 1) == []


def test_a_queue_made_anew_has_no_settings(client):
    client.change_queue("pins", paused=True)
    client.delete_queue("pins", "open sesame")
    client.create_queue("pins")
    put(client)
    assert len(client.dequeue_jobs("pins", 1)) == 1


@pytest.mark.parametrize("wrong", [{"jobs_per_second": -1.0}, {"max_running": -1}, {"jobs_per_second": float("inf")}])
def test_what_is_no_limit_is_refused(client, wrong):
    with pytest.raises(UnknownError, match="or 0 for no limit"):
        client.change_queue("pins", **wrong)
    with pytest.raises(QueueNotFound):
        client.change_queue("nowhere", paused=True)
    assert client.queue_settings()["pins"] == QueueSettings()


def test_the_number_of_shards_is_kept_where_there_is_but_one(client):
    for shards in (3, FOLLOWS_LOAD):
        client.change_queue("pins", shards=shards)
        assert client.queue_settings()["pins"] == QueueSettings(shards=shards)
        client.change_queue("pins", max_running=0)
        assert client.queue_settings()["pins"].shards == shards
    with pytest.raises(UnknownError, match="-2 is not a number of shards; use 1 or more, 0 for all, or -1 for auto"):
        client.change_queue("pins", shards=-2)
    client.change_queue("pins", shards=0)
    assert client.queue_settings()["pins"] == QueueSettings()
