"""Peers that fill the memory: with calls that do not end, that are many, that decode into much, with unread answers."""

import contextlib
import struct
import threading
import time

import pytest

from tests.integration.test_hostile_peers import dequeue_call, framed, names_call, read_frame
from tests.support.apache import decode_answer, encode_call
from tests.support.server import ServerProcess, wait_for

MB = 1 << 20
MOST = 220 * MB
MOST_STORED = (64 + 4 * 48 + 32) * MB
"""The cache of the SQLite store, four times the budget (a call is received, decoded and written), and two large calls
for what no budget counts, such as gaps between blocks of the heap. Up to 250 MB were seen, and 290 while the allocator
kept what was freed; without the budget it is 350 MB and more."""
CONTEXT = {"source": "hostile"}


class Growth:
    """The most that a server has grown since this was made; it looks often."""

    def __init__(self, server):
        self._worker = server.child()
        self._before = self._worker.memory_info().rss
        self._done = threading.Event()
        self._most = 0
        self._thread = threading.Thread(target=self._look)

    def _look(self):
        while not self._done.wait(0.02):
            self._most = max(self._most, self._worker.memory_info().rss - self._before)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    @property
    def bytes(self):
        return self._most


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("memory")) as server:
        with server.client() as client:
            client.createQueue(name="pins")
        yield server


@pytest.fixture
def peers(server):
    """Make connections that are closed after the test."""
    made = []

    def connect(count):
        made.extend(server.socket() for _ in range(count))
        return made[-count:]

    yield connect
    for sock in made:
        sock.close()


def send_in_background(sock, data):
    def send():
        with contextlib.suppress(OSError):  # closed by either side
            sock.sendall(data)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def test_large_calls_that_do_not_come_to_their_end(server, peers):
    with server.client() as client, Growth(server) as growth:
        for sock in peers(25):
            send_in_background(sock, struct.pack(">i", 16_000_000) + b"x" * 15_000_000)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline or "other calls wait for its memory" not in server.log:
            client.getQueueNames()
            time.sleep(0.01)
        large = client.enqueueJobs(queueName="pins", jobs=[{"body": b"x" * 100_000}] * 50)  # has to wait for room
    assert len(large["jobDescriptors"]) == 50
    assert growth.bytes < MOST


def test_large_calls_ahead_of_their_answers(server, peers):
    jobs = [{"body": b"x" * 1_000_000}] * 15
    call = framed(encode_call("enqueueJobs", 1, {"context": CONTEXT, "request": {"queueName": "pins", "jobs": jobs}}))
    with Growth(server) as growth:
        socks = peers(3)
        for sock in socks:
            sock.settimeout(60)
            send_in_background(sock, call * 8)
        for sock in socks:
            for _ in range(8):
                assert decode_answer("enqueueJobs", read_frame(sock))[0] == 1
    assert growth.bytes < MOST_STORED


def test_calls_that_decode_into_much(server, peers):
    jobs = [{"body": b""}] * 150_000
    call = framed(encode_call("enqueueJobs", 1, {"context": CONTEXT, "request": {"queueName": "absent", "jobs": jobs}}))
    with server.client() as client, Growth(server) as growth:
        socks = peers(6)
        for sock in socks:
            sock.settimeout(60)
            send_in_background(sock, call)
        for sock in socks:
            assert read_frame(sock)
            client.getQueueNames()
    assert growth.bytes < MOST


def test_answers_that_nobody_reads(server, peers):
    with server.client() as client:
        client.createQueue(name="large")
        names = client.enqueueJobs(queueName="large", jobs=[{"body": b"x" * 1_000_000}] * 10)["jobDescriptors"]
        call = framed(
            encode_call(
                "lookupJobs", 1, {"context": CONTEXT, "request": {"jobDescriptors": names, "includeBody": True}}
            )
        )
        with Growth(server) as growth:
            for sock in peers(30):
                sock.sendall(call * 3)
            wait_for(lambda: "does not read its replies, and others need" in server.log, 60)
            client.getQueueNames()
            with server.socket() as reader:
                reader.settimeout(60)
                reader.sendall(call)
                assert len(read_frame(reader)) > 10_000_000
    assert growth.bytes < MOST


def test_jobs_of_an_answer_that_was_sent_in_part_go_back(server, peers):
    """The kernel takes up to 4 MB of it, whoever reads."""
    [peer] = peers(1)
    with server.client() as client:
        client.createQueue(name="parts")
        for _ in range(14):
            client.enqueueJobs(queueName="parts", jobs=[{"body": b"x" * MB}])
        peer.sendall(dequeue_call("parts", limit=14))
        assert peer.recv(1000)
        assert client.getJobCount(queueName="parts", jobState=1) == 14
        peer.close()
        wait_for(lambda: client.getJobCount(queueName="parts", jobState=0) == 14)
        client.deleteJobs(queueName="parts", jobState=0)


def test_a_peer_that_reads_nothing_is_not_read_either(server, peers):
    (sock,) = peers(1)
    jobs = [{"body": b"x" * 1_000_000}] * 10
    with server.client() as client:
        client.createQueue(name="unread")
        names = client.enqueueJobs(queueName="unread", jobs=jobs)["jobDescriptors"]
    request = {"jobDescriptors": names, "includeBody": True}
    sock.sendall(framed(encode_call("lookupJobs", 1, {"context": CONTEXT, "request": request})))
    sender = send_in_background(sock, names_call() * 1_000_000)
    sender.join(2)
    assert sender.is_alive()  # what it sends stays with it
    sock.settimeout(60)
    assert len(read_frame(sock)) > 10_000_000
    assert decode_answer("getQueueNames", read_frame(sock))[0] == 1
