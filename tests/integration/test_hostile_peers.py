"""Peers that send rubbish, too much, too little or nothing: their connection suffers, nobody else."""

import resource
import select
import socket
import struct
import threading
import time

import pytest
from thrift.Thrift import TApplicationException

from tests.support.apache import decode_answer, encode_call
from tests.support.server import wait_for
from tests.unit.protocol.test_hostile import LARGE, REFUSED, TOO_MANY

CONTEXT = {"source": "hostile"}


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


def names_call(number=1):
    return framed(encode_call("getQueueNames", number, {"context": CONTEXT}))


def dequeue_call(queue, number=1, limit=1, **fields):
    request = {"queueName": queue, "limit": limit, **fields}
    return framed(encode_call("dequeueJobs", number, {"context": CONTEXT, "request": request}))


def read_exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_frame(sock):
    return read_exactly(sock, *struct.unpack(">i", read_exactly(sock, 4)))


def is_closed(sock):
    """Return whether the server closed the connection, without an answer."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def peer(shared_server):
    with shared_server.socket() as sock:
        yield sock


@pytest.mark.parametrize("frame", [f for f in REFUSED.values() if len(f) < 400_000])
def test_a_hostile_frame_closes_its_connection_alone(peer, client, queue, frame):
    peer.sendall(framed(frame))
    assert is_closed(peer)
    assert queue in client.getQueueNames()


@pytest.mark.parametrize("length", [-1, -(2**31), 2_000_001, 2**31 - 1])
def test_an_absurd_length_closes_the_connection_at_once(peer, client, queue, length):
    peer.sendall(struct.pack(">i", length) + b"x")
    assert is_closed(peer)
    assert queue in client.getQueueNames()


@pytest.mark.parametrize("frame", TOO_MANY.values(), ids=TOO_MANY)
def test_a_call_of_too_many_parts_is_told_so_and_its_connection_stays(peer, frame):
    method = frame[8 : 8 + int.from_bytes(frame[4:8], "big")].decode()
    peer.sendall(framed(frame) + names_call(8))
    with pytest.raises(TApplicationException, match="at most 250000 jobs, acks or other elements; split it"):
        decode_answer(method, read_frame(peer))
    assert decode_answer("getQueueNames", read_frame(peer))[0] == 8


def test_what_came_before_the_hostile_frame_is_answered(peer):
    peer.sendall(names_call(1) + names_call(2) + framed(b"rubbish"))
    assert [decode_answer("getQueueNames", read_frame(peer))[0] for _ in range(2)] == [1, 2]
    assert is_closed(peer)


def test_hostile_frames_leave_the_server_small(shared_server, client, queue):
    worker = shared_server.child()
    before = worker.memory_info().rss
    for _ in range(3):
        for frame in (REFUSED | TOO_MANY | LARGE).values():
            if len(frame) < 2_000_000:
                with shared_server.socket() as sock:
                    sock.sendall(framed(frame))
                    sock.settimeout(20)
                    sock.recv(100)
        assert queue in client.getQueueNames()
    assert worker.memory_info().rss - before < 200 << 20
    assert shared_server.process.poll() is None


def test_a_call_in_small_pieces_is_answered(peer):
    for byte in names_call(5):
        peer.sendall(bytes([byte]))
    assert decode_answer("getQueueNames", read_frame(peer))[0] == 5


def test_a_frame_that_does_not_end_holds_up_nobody_else(peer, client, queue):
    peer.sendall(names_call()[:-1])
    assert queue in client.getQueueNames()
    peer.sendall(names_call()[-1:])
    assert decode_answer("getQueueNames", read_frame(peer))[0] == 1


def test_pipelined_calls_are_answered_in_their_order(peer, queue):
    """A slow call first: the quick ones behind it must wait for it."""
    request = {"queueName": queue, "jobState": 0}
    calls, methods = [], []
    for number in range(300):
        method = ("createQueue", "getJobCount", "getQueueNames", "scanJobs")[number % 4]
        arguments = {"context": CONTEXT}
        arguments |= {"name": queue} if method == "createQueue" else {"request": request} if number % 2 else {}
        calls.append(framed(encode_call(method, number, arguments)))
        methods.append(method)
    peer.sendall(b"".join(calls))
    assert [decode_answer(method, read_frame(peer))[0] for method in methods] == list(range(300))


def test_a_peer_that_leaves_without_reading(shared_server, client, queue):
    for _ in range(50):
        with shared_server.socket() as sock:
            sock.sendall(names_call() * 20)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert queue in client.getQueueNames()


def test_jobs_for_a_peer_that_has_left_go_back_with_all_their_attempts(shared_server, client, queue):
    names = client.enqueueJobs(queueName=queue, jobs=[{"body": b"x" * 1000}] * 500)["jobDescriptors"]
    for _ in range(10):
        with shared_server.socket() as sock:
            request = {"queueName": queue, "limit": 50}
            sock.sendall(framed(encode_call("dequeueJobs", 1, {"context": CONTEXT, "request": request})))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.releaseClaims(queueName=queue, claimSource="hostile")  # of those that the kernel took in time
    wait_for(lambda: client.getJobCount(queueName=queue, jobState=0) == 500)
    records = client.lookupJobs(jobDescriptors=names)
    assert {record["attemptsRemaining"] for record in records.values()} == {2}


def test_a_peer_that_will_say_no_more_gets_its_answers(peer, queue):
    enqueue = {"context": CONTEXT, "request": {"queueName": queue, "jobs": [{"body": b"x"}]}}
    peer.sendall(framed(encode_call("enqueueJobs", 1, enqueue)) + names_call(2) + dequeue_call(queue, 3))
    peer.shutdown(socket.SHUT_WR)
    assert len(decode_answer("enqueueJobs", read_frame(peer))[1]["jobDescriptors"]) == 1
    assert queue in decode_answer("getQueueNames", read_frame(peer))[1]
    assert len(decode_answer("dequeueJobs", read_frame(peer))[1]["jobs"]) == 1
    assert is_closed(peer)


def test_a_peer_that_will_say_no_more_gets_no_jobs_that_it_waited_for(peer, client, queue):
    peer.sendall(dequeue_call(queue, waitMillis=60_000))
    peer.shutdown(socket.SHUT_WR)
    assert "jobs" not in decode_answer("dequeueJobs", read_frame(peer))[1]
    assert is_closed(peer)
    client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}])
    assert client.getJobCount(queueName=queue, jobState=0) == 1


def test_five_hundred_idle_connections_disturb_nobody(shared_server, client, queue):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1024:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048), hard))
    idle = [shared_server.socket() for _ in range(500)]
    try:
        for sock in idle[::2]:
            sock.sendall(names_call()[:7])
        worker = shared_server.child()
        for _ in range(50):
            client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}])
        began, cpu = time.monotonic(), sum(worker.cpu_times()[:2])
        time.sleep(0.5)
        assert sum(worker.cpu_times()[:2]) - cpu < 0.5 * (time.monotonic() - began)
        assert len(client.dequeueJobs(queueName=queue, limit=100)["jobs"]) == 50
        for sock in idle[1::100]:
            sock.sendall(names_call(3))
            assert decode_answer("getQueueNames", read_frame(sock))[0] == 3
    finally:
        for sock in idle:
            sock.close()


def test_the_log_tells_of_refusals_without_a_traceback(shared_server, peer):
    peer.sendall(framed(b"rubbish"))
    assert is_closed(peer)
    assert "Traceback" not in shared_server.log


def test_a_call_that_is_slow_to_decode_holds_up_nobody_else(shared_server, client, queue):
    tiny_field = b"\x02\x70\x00\x01"  # a bool that the IDL does not know

    def answered_meanwhile():
        answered = 0
        with shared_server.socket() as peer:
            peer.sendall(framed(names_call()[4:-1] + tiny_field * 490_000 + b"\x00"))
            while not is_readable(peer):
                client.getQueueNames()
                answered += 1
            assert read_frame(peer)  # unknown fields are no fault
        return answered

    wait_for(lambda: answered_meanwhile() > 3)  # on a busy machine, we may ask too late


def test_thousands_of_calls_in_a_row_leave_others_their_turn(shared_server, client, queue):
    with shared_server.socket() as peer:
        sender = threading.Thread(target=peer.sendall, args=(names_call() * 20_000,))
        sender.start()
        read, done = 0, threading.Event()

        def read_all():
            for _ in range(20_000):
                read_frame(peer)
            done.set()

        reader = threading.Thread(target=read_all)
        reader.start()
        while not done.is_set():
            client.getQueueNames()
            read += 1
        sender.join()
        reader.join()
    assert read > 50


def is_readable(sock):
    return bool(select.select([sock], [], [], 0)[0])
