"""Connections that dawdle or idle are let go, and there is a limit to their number."""

import contextlib
import socket
import time

import pytest

from tests.integration.test_hostile_peers import framed, is_closed, names_call, read_frame
from tests.support.apache import decode_answer, encode_call
from tests.support.server import ServerProcess, wait_for

MOST = 20
DAWDLING_SECONDS, IDLE_SECONDS = 1.0, 2.4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ServerProcess(
        tmp_path_factory.mktemp("limits") / "server",
        PARTIAL_FRAME_TIMEOUT_SECONDS=DAWDLING_SECONDS,
        SERVER_CONN_MAX_IDLE_TIME_MINUTES=IDLE_SECONDS / 60,
    )
    yield server
    assert server.stop() == 0


def _drip(sock):
    """Send a byte now and then, until the server does not want any more."""
    for _ in range(150):
        sock.sendall(b"x")
        time.sleep(0.1)


def test_a_frame_that_does_not_end_is_given_up_also_when_it_drips(server):
    with server.socket() as still, server.socket() as dripping:
        still.sendall(b"\0\0")
        began = time.monotonic()
        dripping.sendall(b"\0\0\x10\0")
        with pytest.raises(OSError):
            _drip(dripping)
        assert time.monotonic() - began >= DAWDLING_SECONDS
        assert is_closed(still)


def test_an_idle_connection_is_closed_in_the_end(server):
    with server.socket() as idle:
        began = time.monotonic()
        idle.sendall(names_call(1))
        read_frame(idle)
        assert is_closed(idle)
        assert time.monotonic() - began >= IDLE_SECONDS - 0.5


def test_a_waiting_dequeue_is_not_idle(server):
    with server.client() as client:
        client.createQueue(name="q")
    with server.socket() as waiting:
        request = {"queueName": "q", "limit": 1, "waitMillis": int(IDLE_SECONDS * 1000) + 1500}
        waiting.sendall(framed(encode_call("dequeueJobs", 5, {"context": {"source": "x"}, "request": request})))
        number, answer = decode_answer("dequeueJobs", read_frame(waiting))
        assert (number, answer.keys() - {"serverTimestampMillis"}) == (5, set())


# Limits of their number, of all and of one address


@pytest.fixture(scope="module")
def fair_server(tmp_path_factory):
    server = ServerProcess(
        tmp_path_factory.mktemp("fair") / "server",
        MAX_CONNECTIONS=MOST,
        MAX_CONNECTIONS_PER_ADDRESS=3,
        MAX_CONCURRENT_REQUESTS_PER_ADDRESS=1,
    )
    yield server
    assert server.stop() == 0


def _connect_from(address, server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(address, 0))


def test_connections_beyond_the_limit_are_refused_and_room_is_found_again(fair_server):
    socks = [_connect_from(f"127.0.1.{number + 1}", fair_server) for number in range(MOST + 5)]
    try:
        for number, sock in enumerate(socks[:MOST]):
            sock.sendall(names_call(number))
            assert decode_answer("getQueueNames", read_frame(sock))[0] == number
        assert all(is_closed(sock) for sock in socks[MOST:])
    finally:
        for sock in socks:
            sock.close()

    def has_room():
        with fair_server.socket() as sock:
            try:
                sock.sendall(names_call(1))
                return read_frame(sock)
            except (EOFError, OSError):
                return None

    assert wait_for(has_room)


def test_connections_of_one_address_leave_room_for_others(fair_server):
    with contextlib.ExitStack() as stack:
        greedy = [stack.enter_context(_connect_from("127.0.0.2", fair_server)) for _ in range(5)]
        assert [is_closed(sock) for sock in greedy[3:]] == [True, True]
        other = stack.enter_context(_connect_from("127.0.0.3", fair_server))
        for sock in (*greedy[:3], other):
            sock.sendall(names_call(1))
            assert decode_answer("getQueueNames", read_frame(sock))[0] == 1
    assert (
        "connection from 127.0.0.2 refused: this address has too many (MAX_CONNECTIONS_PER_ADDRESS)" in fair_server.log
    )


def test_calls_of_one_address_are_all_answered_one_after_the_other(fair_server):
    with _connect_from("127.0.0.4", fair_server) as one, _connect_from("127.0.0.4", fair_server) as two:
        for number in range(20):
            one.sendall(names_call(number))
            two.sendall(names_call(number))
        for sock in (one, two):
            assert [decode_answer("getQueueNames", read_frame(sock))[0] for _ in range(20)] == list(range(20))


def test_calls_of_one_address_that_wait_hold_up_none_and_go_on_one_after_the_other(fair_server):
    def call(method, number, **request):
        return framed(encode_call(method, number, {"context": {"source": "x"}, "request": request}))

    def enqueue(queue):
        three.sendall(call("enqueueJobs", 1, queueName=queue, jobs=[{"body": b"x"}]))
        [job] = answer_of(three, "enqueueJobs")["jobDescriptors"]
        return job

    def answer_of(sock, method):
        return decode_answer(method, read_frame(sock))[1]

    with contextlib.ExitStack() as stack:
        one, two, three = (stack.enter_context(_connect_from("127.0.0.5", fair_server)) for _ in range(3))
        unfinished, stored = enqueue("awaited"), enqueue("q")
        for number in range(5):
            one.sendall(call("dequeueJobs", number, queueName="q", limit=1, waitMillis=20_000))
            two.sendall(call("lookupJobs", number, jobDescriptors=[unfinished], waitMillis=50))
            assert [*answer_of(one, "dequeueJobs")["jobs"]] == [stored]
            one.sendall(call("dequeueJobs", number, queueName="q", limit=1, waitMillis=20_000))
            stored = enqueue("q")
            assert [*answer_of(one, "dequeueJobs")["jobs"]] == [stored]
            assert [*answer_of(two, "lookupJobs")] == [unfinished]
            stored = enqueue("q")
