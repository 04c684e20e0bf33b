"""The admin port: pages, errors and misbehaving clients, on both event loops."""

import asyncio
import contextlib
import os
import socket

import pytest
import uvloop

from pinlater.server.admin import AdminEndpoint
from pinlater.server.admin.endpoint import MAX_CONNECTIONS, MAX_HEAD_BYTES
from pinlater.server.admin.reports import ServerStatus
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.reports import decode_report, encode_report

PATIENCE_SECONDS = 20


def looking(metrics, is_ready):
    """What the admin process sees of one server process with these metrics."""

    async def look(**_):
        return ServerStatus([decode_report(encode_report(os.getpid(), is_ready(), metrics.snapshot()))], [])

    return look


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    """Run ``test(endpoint)`` against a started endpoint; keywords are the endpoint's."""

    def in_loop(test, metrics=None, is_ready=lambda: None, listener=None, **options):
        async def main():
            endpoint = AdminEndpoint(looking(metrics or Metrics(), is_ready), **options)
            if listener:
                await endpoint.start(sock=listener)
            else:
                await endpoint.start("127.0.0.1", 0)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    return await test(endpoint)
            finally:
                await endpoint.close()

        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(main())

    return in_loop


async def exchange(endpoint, sent):
    """Send bytes and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(sent)
    answer = await reader.read(-1)
    writer.close()
    return answer


def get(run, path, method="GET", **options):
    """Return status, head and body of one page."""
    answer = run(
        lambda endpoint: exchange(endpoint, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()), **options
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body.decode()


def test_the_pages(run):
    metrics = Metrics()
    metrics.jobs_enqueued.add("pins", 3)
    status, head, body = get(run, "/stats.txt?namespace=x", metrics=metrics)
    assert status == 200
    assert "Connection: close" in head
    assert f"Content-Length: {len(body)}" in head
    assert "  pins_enqueue: 3\n" in body
    status, head, body = get(run, "/metrics", metrics=metrics)
    assert status == 200
    assert "version=0.0.4" in head
    assert 'pinlater_jobs_enqueued_total{queue="pins"} 3.0\n' in body
    assert "/readyz" in get(run, "/")[2]


def test_health(run):
    assert get(run, "/livez")[::2] == (200, "ok\n")
    assert get(run, "/readyz")[::2] == (200, "ok\n")
    assert get(run, "/readyz", is_ready=lambda: "draining")[::2] == (503, "draining\n")
    assert get(run, "/livez", is_ready=lambda: "draining")[0] == 200


def test_head_has_no_body(run):
    status, head, body = get(run, "/livez", method="HEAD")
    assert (status, body) == (200, "")
    assert "Content-Length: 3" in head


def test_refusals(run):
    assert get(run, "/nothing")[0] == 404
    status, head, _ = get(run, "/livez", method="POST")
    assert status == 405
    assert "Allow: GET, HEAD" in head


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/2.0\r\n\r\n",
        b"get /livez HTTP/1.1\r\n\r\n",
        b"GET  /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nno header\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nA: \x00\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01" + bytes(200) + b"\n\n",
        b"GET /livez HTTP/1.1\r\nA: " + b"x" * MAX_HEAD_BYTES,
        b"x" * 10 * MAX_HEAD_BYTES,
    ],
)
def test_what_is_no_request_is_answered_400(run, sent):
    assert run(lambda endpoint: exchange(endpoint, sent)).startswith(b"HTTP/1.1 400 ")


def test_a_request_typed_by_hand_is_answered(run):
    assert run(lambda endpoint: exchange(endpoint, b"GET /livez HTTP/1.0\n\n")).startswith(b"HTTP/1.1 200 ")


def test_a_request_in_pieces_is_answered(run):
    async def test(endpoint):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        for byte in b"GET /livez HTTP/1.1\r\nA: b\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answer = await reader.read(-1)
        writer.close()
        return answer

    assert run(test).startswith(b"HTTP/1.1 200 ")


def test_the_answer_reaches_a_peer_that_sent_a_body(run):
    sent = b"POST /livez HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    assert run(lambda endpoint: exchange(endpoint, sent)).startswith(b"HTTP/1.1 405 ")


def test_a_slow_request_ends_at_its_deadline(run):
    answer = run(lambda endpoint: exchange(endpoint, b"GET /livez"), read_seconds=0.05)
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_page_that_fails_is_an_error_of_its_own(run):
    metrics = Metrics()
    metrics.connections.source = lambda: 1 // 0

    async def test(endpoint):
        failed = await exchange(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n")
        return failed, await exchange(endpoint, b"GET /livez HTTP/1.1\r\n\r\n")

    failed, alive = run(test, metrics=metrics)
    assert failed.startswith(b"HTTP/1.1 500 ")
    assert b"ZeroDivisionError" not in failed
    assert alive.startswith(b"HTTP/1.1 200 ")


def test_a_large_page_arrives_whole_at_a_slow_reader(run):
    metrics = Metrics()
    for number in range(5_000):
        metrics.jobs_enqueued.add(f"queue_with_a_rather_long_name_{number:05}", number)

    async def test(endpoint):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        with client:
            await loop.sock_connect(client, ("127.0.0.1", endpoint.port))
            await loop.sock_sendall(client, b"GET /stats.txt HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0.2)
            received = bytearray()
            while chunk := await loop.sock_recv(client, 65536):
                received += chunk
        return bytes(received)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Inherited by its connections: the system must not take the whole page off the endpoint's hands.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        listener.setblocking(False)
        answer = run(test, metrics=metrics, listener=listener)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert body.count(b"_enqueue: ") == 5_000


def test_connections_that_ask_for_nothing_keep_nobody_out(run):
    async def test(endpoint):
        held = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(MAX_CONNECTIONS)]
        held[0][1].write(b"GET")
        await asyncio.sleep(0.1)
        extra = await exchange(endpoint, b"GET /livez HTTP/1.1\r\n\r\n")
        held[-1][1].write(b"GET /livez HTTP/1.1\r\n\r\n")
        answer = await held[-1][0].read(-1)
        try:
            eldest = await held[0][0].read(-1)
        except ConnectionError:
            eldest = b""
        for _, writer in held:
            writer.close()
        return extra, answer, eldest

    extra, answer, eldest = run(test)
    assert b" 200 " in extra
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert eldest == b""


def test_of_many_that_connect_at_once_those_that_go_are_closed(run):
    async def test(endpoint):
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(socket.socket()) for _ in range(MAX_CONNECTIONS + 20)]
            for one in held:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", endpoint.port))
            open_ones = held
            while len(open_ones) > MAX_CONNECTIONS:
                await asyncio.sleep(0.01)
                open_ones = [one for one in open_ones if not is_closed(one)]

    run(test, read_seconds=10 * PATIENCE_SECONDS)


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_it_serves_on_a_socket_that_listens_already():
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            endpoint = AdminEndpoint(looking(Metrics(), lambda: None))
            await endpoint.start(sock=listener)
            assert endpoint.port == listener.getsockname()[1]
            answer = await exchange(endpoint, b"GET /livez HTTP/1.1\r\n\r\n")
            await endpoint.close()
            return answer

    assert asyncio.run(main()).startswith(b"HTTP/1.1 200 ")


def test_closing_ends_what_is_open(run):
    async def test(endpoint):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"GET")
        await asyncio.sleep(0.1)
        await endpoint.close()
        await endpoint.close()
        try:
            rest = await reader.read(-1)
        except ConnectionError:
            rest = b""
        writer.close()
        return rest

    assert run(test) == b""


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_was_just_accepted_is_answered_at_the_end(run, turns):
    """Wherever the end comes; one that is not accepted yet is left to the process that comes next."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")

        async def test(endpoint):
            for _ in range(turns):
                await asyncio.sleep(0)
            await endpoint.close()

        run(test, listener=listener.dup())
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            assert client.recv(100).startswith(b"HTTP/1.1 200")
