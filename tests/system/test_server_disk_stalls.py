"""A disk whose syncs take long: the event loop waits for it once at most, and nothing that was answered is lost."""

import os
import shutil
import threading
import time

import pytest

from pinlater import Client, JobState
from pinlater.model.jobs import NewJob
from tests.support.server import ServerProcess, wait_for
from tests.support.stalls import Stalls

STALL_SECONDS = 2.0
STALLS = 4


@pytest.fixture
def server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    yield server
    assert server.stop() == 0


class Pulse:
    """Asks the server for what it has in memory, again and again; remembers how long the answers took."""

    def __init__(self, address):
        self._address = address
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds = []

    def __enter__(self):
        self._thread.start()
        wait_for(lambda: self.seconds)
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(60)

    def _run(self):
        with Client(self._address, timeout=60) as client:
            while not self._is_over.wait(0.01):
                asked = time.monotonic()
                client.queue_names()
                self.seconds.append(time.monotonic() - asked)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_disk_that_stalls_stops_the_server_once_at_most(server, tmp_path):
    with Client(server.address, timeout=60) as client:
        client.create_queue("q")
        stored = [client.enqueue_jobs("q", [NewJob(b"before")]) for _ in range(20)]
        with Pulse(server.address) as pulse, Stalls(server.child(), tmp_path / "trace", STALL_SECONDS):
            for _ in range(STALLS):
                began = time.monotonic()
                stored.append(client.enqueue_jobs("q", [NewJob(b"while the disk stalls")]))
                assert time.monotonic() - began >= STALL_SECONDS  # answered after the sync
        assert client.count("q", JobState.PENDING) == len(stored) == 20 + STALLS
    assert sum(seconds > STALL_SECONDS * 0.75 for seconds in pulse.seconds) <= 1
    assert os.path.getsize(tmp_path / "trace") > 0
