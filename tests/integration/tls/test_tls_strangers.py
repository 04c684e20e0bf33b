"""Every way in which the two sides of a connection may not fit, and peers in trouble."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time

import pytest

from pinlater import AsyncClient, Client, TlsFiles
from pinlater.errors import CallError, ServerUnavailable
from tests.integration.test_hostile_peers import is_closed, names_call
from tests.integration.tls.tls_server import DEADLINE_SECONDS, raw_connection
from tests.support.apache import decode_answer
from tests.support.server import wait_for


def test_an_authority_that_the_client_does_not_know(server, stranger):
    with (
        Client(server.address, tls=TlsFiles(ca=stranger.ca), retries=0, connect_timeout=30) as client,
        pytest.raises(ServerUnavailable, match=r"certificate is not trusted: .*PINLATER_TLS_CA"),
    ):
        client.queue_names()
    assert wait_for(lambda: "TLS handshake with 127.0.0.1 failed" in server.log)


def test_the_asyncio_client_says_so_too(server, stranger):
    async def use():
        async with AsyncClient(server.address, tls=TlsFiles(ca=stranger.ca), retries=0, connect_timeout=30) as client:
            await client.queue_names()

    with pytest.raises(ServerUnavailable, match=r"certificate is not trusted: .*PINLATER_TLS_CA"):
        asyncio.run(use())


def test_a_certificate_of_another_host(authority, files, tmp_path):
    issued = authority.issue("elsewhere", "DNS:elsewhere.example.com")
    with (
        _answering_with(issued) as port,
        Client(f"tls://127.0.0.1:{port}", tls=files, retries=0, connect_timeout=30) as client,
        pytest.raises(ServerUnavailable, match="IP address mismatch"),
    ):
        client.queue_names()


@contextlib.contextmanager
def _answering_with(issued):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issued)

    async def refuse(_, writer):
        writer.close()

    async def serve(started, stop):
        server = await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=context)
        started.append(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(stop.wait)
        server.close()

    started, stop = [], threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve(started, stop)))
    thread.start()
    try:
        wait_for(lambda: started)
        yield started[0]
    finally:
        stop.set()
        thread.join()


def test_a_client_without_a_certificate_is_told(strict_server, files):
    with (
        Client(strict_server.address, tls=files, retries=0, connect_timeout=30) as client,
        pytest.raises(ServerUnavailable, match=r"certificate required.*PINLATER_TLS_CERT"),
    ):
        client.queue_names()
    assert wait_for(lambda: "the client sent no certificate, which THRIFT_TLS_CLIENT_CA requires" in strict_server.log)


def test_a_client_with_a_strangers_certificate_is_told(strict_server, authority, stranger):
    theirs = stranger.issue("theirs")
    wrong = TlsFiles(ca=authority.ca, cert=theirs.cert, key=theirs.key)
    with (
        Client(strict_server.address, tls=wrong, retries=0, connect_timeout=30) as client,
        pytest.raises(ServerUnavailable, match="does not accept our certificate"),
    ):
        client.queue_names()
    assert wait_for(lambda: "the client's certificate was rejected" in strict_server.log)


def test_a_plain_client_at_the_tls_port(server):
    with (
        Client(f"127.0.0.1:{server.port}", tls=TlsFiles(), retries=0, connect_timeout=30) as client,
        pytest.raises(CallError, match="it speaks TLS: write tls://host:port"),
    ):
        client.queue_names()
    assert wait_for(lambda: "the client does not speak TLS, which this port requires" in server.log)


def test_a_plain_asyncio_client_at_the_tls_port(server):
    async def use():
        async with AsyncClient(f"127.0.0.1:{server.port}", tls=TlsFiles(), retries=0, connect_timeout=30) as client:
            await client.queue_names()

    with pytest.raises(CallError, match="it speaks TLS: write tls://host:port"):
        asyncio.run(use())


def test_a_tls_client_at_a_plain_port(shared_server, files):
    with (
        Client(f"tls://127.0.0.1:{shared_server.port}", tls=files, retries=0, connect_timeout=30) as client,
        pytest.raises(ServerUnavailable),
    ):
        client.queue_names()
    assert wait_for(lambda: "the client speaks TLS, but this port does not" in shared_server.log)


def test_a_client_at_the_port_of_the_dashboard(shared_server):
    async def use(server):
        async with AsyncClient(server, retries=0, connect_timeout=30) as client:
            await client.queue_names()

    address = f"127.0.0.1:{shared_server.admin_port}"
    hint = "it speaks HTTP, like the port of the dashboard: write the port of the service"
    with Client(address, retries=0, connect_timeout=30) as client, pytest.raises(CallError, match=hint):
        client.queue_names()
    with pytest.raises(CallError, match=hint):
        asyncio.run(use(address))


def test_a_browser_or_a_probe_at_the_port_of_the_service(shared_server):
    with socket.create_connection(("127.0.0.1", shared_server.port)) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_closed(sock)
    assert wait_for(lambda: "the client speaks HTTP: dashboard, metrics and health checks" in shared_server.log)


def test_a_thrift_client_without_frames(shared_server):
    with socket.create_connection(("127.0.0.1", shared_server.port)) as sock:
        sock.sendall(names_call()[4:])
        assert is_closed(sock)
    assert wait_for(lambda: "Thrift calls without frames: give it a framed transport" in shared_server.log)


def test_a_tls_client_at_a_port_that_hangs_up_or_says_nothing(files):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tls://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(address, tls=files, retries=0, connect_timeout=0.5) as client,
            pytest.raises(ServerUnavailable, match="no answer"),
        ):
            client.queue_names()


def test_a_try_that_the_deadline_cuts_off_does_not_hide_the_reason(files):
    with (
        _hanging_up_once() as address,
        Client(address, tls=files, connect_timeout=30, timeout=3) as client,
        pytest.raises(ServerUnavailable) as raised,
    ):
        client.queue_names()
    assert "no answer" not in str(raised.value)


def test_nor_does_it_in_asyncio(files):
    async def use(address):
        async with AsyncClient(address, tls=files, connect_timeout=30, timeout=3) as client:
            await client.queue_names()

    with _hanging_up_once() as address, pytest.raises(ServerUnavailable) as raised:
        asyncio.run(use(address))
    assert "no answer" not in str(raised.value)


@contextlib.contextmanager
def _hanging_up_once():
    """Close the first connection, and leave all others without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up():
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        yield f"tls://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_tls_1_1_is_refused(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with raw_connection(server) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock)


def test_half_open_handshakes_are_cut_off_and_hold_up_nobody(server, files):
    hello, began = _client_hello(), time.monotonic()
    silent, partial = raw_connection(server), raw_connection(server)
    with silent, partial, Client(server.address, tls=files) as client:
        partial.sendall(hello[: len(hello) // 2])
        client.queue_names()
        assert is_closed(silent)
        assert is_closed(partial)
        assert time.monotonic() - began >= DEADLINE_SECONDS - 0.5
        client.queue_names()


def _client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_a_handshake_byte_by_byte(server, files):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = files.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with raw_connection(server) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    sock.sendall(bytes([byte]))
                incoming.write(sock.recv(100_000))
        tls.write(names_call(7))
        for byte in outgoing.read():
            sock.sendall(bytes([byte]))
        answer = b""
        while not answer:
            incoming.write(sock.recv(100_000))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer = tls.read(100_000)
        assert decode_answer("getQueueNames", answer[4:])[0] == 7


@pytest.mark.parametrize("rubbish", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"\x16\x03\x01\xff\xff" + b"z" * 70_000])
def test_rubbish_at_the_tls_port_closes_its_connection_alone(server, files, rubbish):
    with raw_connection(server) as sock, Client(server.address, tls=files) as client:
        sock.sendall(rubbish)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1000):
                pass
        client.queue_names()
    assert "Traceback" not in server.log


def test_a_peer_that_says_goodbye_behind_its_call_gets_its_answer(server, files):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = files.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with raw_connection(server) as sock:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(100_000))
        tls.write(names_call(7))
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        sock.sendall(outgoing.read())
        sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(100_000):
            incoming.write(data)
        assert decode_answer("getQueueNames", tls.read(100_000)[4:])[0] == 7


def test_damage_after_the_handshake_closes_the_connection(server, files):
    secure = files.context().wrap_socket(raw_connection(server), server_hostname="127.0.0.1")
    with socket.socket(fileno=secure.detach()) as sock:
        sock.sendall(b"\x17\x03\x03\x00\x10" + b"x" * 16)
        sock.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1000):
                pass
    assert wait_for(lambda: "invalid TLS data" in server.log)


def test_a_load_balancer_that_speaks_the_proxy_protocol(shared_server):
    headers = [b"PROXY TCP4 10.0.0.1 10.0.0.2 4711 9010\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"]
    for number, header in enumerate(headers, start=1):
        with socket.create_connection(("127.0.0.1", shared_server.port)) as sock:
            sock.sendall(header)
            assert is_closed(sock)
        assert wait_for(lambda number=number: shared_server.log.count("speaks the PROXY protocol") == number)
