"""A server hands out nothing before it knows which queues are paused."""

import contextlib
import json
import socket
import sqlite3
import struct
import threading
import time

import pytest

from pinlater.client import Client, NewJob
from pinlater.errors import DequeueRateLimited, NoHealthyShards
from pinlater.model.state import JobState
from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterDequeueRequest, RequestContext, arguments_of
from tests.support.apache import DeclaredError
from tests.support.redis_service import RedisService
from tests.support.server import ServerProcess, wait_for

QUEUES = 50_000
"""So many that reading their settings takes a while."""


def add_queues(folder):
    with contextlib.closing(sqlite3.connect(folder / "data" / "pinlater.db")) as store, store:
        names = ((f"more_{number}",) for number in range(QUEUES))
        store.executemany("INSERT INTO queues (name, created_at) VALUES (?, 0)", names)


class Impatient:
    """Connects as soon as anybody listens, and asks for a job at once."""

    def __init__(self, port):
        request = PinLaterDequeueRequest(queueName="paused", limit=1)
        arguments = arguments_of("dequeueJobs")(context=RequestContext(source="impatient"), request=request)
        self._frame = Codec().encode_call("dequeueJobs", 1, arguments)
        self._thread = threading.Thread(target=self._ask, args=(port,))
        self._thread.start()

    def _ask(self, port):
        deadline = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                    sock.sendall(self._frame)
                    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
                    sock.recv(size, socket.MSG_WAITALL)
                return
            except (OSError, struct.error):
                assert time.monotonic() < deadline
                time.sleep(0.001)

    def is_answered(self):
        self._thread.join(60)
        return not self._thread.is_alive()


def test_a_paused_queue_hands_out_nothing_also_in_the_first_moment(tmp_path):
    with ServerProcess(tmp_path) as server, Client(server.address) as client:
        client.create_queue("paused")
        client.enqueue_jobs("paused", [NewJob(b"x") for _ in range(10)])
        client.change_queue("paused", paused=True)
        server.stop()
        add_queues(tmp_path)
        impatient = [Impatient(server.port) for _ in range(3)]
        server.start()
        assert all(one.is_answered() for one in impatient)
        assert client.count("paused", JobState.IN_PROGRESS) == 0
        with pytest.raises(DequeueRateLimited, match="paused"):
            client.dequeue_jobs("paused", 1)


@pytest.fixture
def redis(tmp_path):
    with RedisService(tmp_path / "redis", appendonly="yes", appendfsync="always") as service:
        yield service


def test_a_server_starts_while_its_store_is_away_and_hands_out_when_it_is_back(tmp_path, redis):
    file = tmp_path / "shards.json"
    shard = {"name": "1", "shardConfig": {"master": {"host": "127.0.0.1", "port": redis.port}}}
    file.write_text(json.dumps({"shards": [shard]}))
    with (
        ServerProcess(tmp_path / "server", PINLATER_BACKEND="redis", BACKEND_CONFIG=str(file)) as server,
        Client(server.address, retries=0, connect_timeout=30) as client,
    ):
        for queue in ("paused", "open"):
            client.create_queue(queue)
            client.enqueue_jobs(queue, [NewJob(b"x")])
        client.change_queue("paused", paused=True)
        server.stop()
        redis.kill()
        with pytest.raises(DeclaredError):  # it is there, and says that its store is not
            server.start()
        assert "no job is handed out until they are known" in server.log
        with pytest.raises(NoHealthyShards):
            client.dequeue_jobs("open", 1)
        redis.start()
        assert wait_for(lambda: taken(client, "open") == [b"x"])
        with pytest.raises(DequeueRateLimited, match="paused"):
            client.dequeue_jobs("paused", 1)
        assert "jobs are handed out" in server.log


def taken(client, queue):
    try:
        return [job.body for job in client.dequeue_jobs(queue, 1)]
    except NoHealthyShards:
        return []
