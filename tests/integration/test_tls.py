"""TLS from end to end: every kind of client, every way in which the two sides may not fit, and renewed certificates."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from pinlater import AsyncClient, Client, Job, TlsFiles
from pinlater.client.records import NewJob
from pinlater.errors import CallError, ConfigError, ServerUnavailable
from pinlater.server.expiry import expires_at
from tests.integration.test_hostile_peers import framed, is_closed, names_call, read_frame
from tests.support.apache import decode_answer
from tests.support.certificates import Authority
from tests.support.server import ServerProcess, environment, free_ports, wait_for

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 1.5


class TlsServer(ServerProcess):
    """A server whose port speaks TLS, and which is asked by a client that does."""

    def __init__(self, folder, tls, **settings):
        self.tls = tls
        super().__init__(folder, **settings)

    @property
    def address(self):
        return f"tls://127.0.0.1:{self.port}"

    def _await_answer(self):
        def answers():
            assert self.process.poll() is None, self.log
            with contextlib.suppress(CallError), Client(self.address, tls=self.tls, retries=0) as client:
                client.queue_names()
                return True

        wait_for(answers, 30)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def files(authority):
    return TlsFiles(ca=authority.ca)


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority, files):
    issued = authority.issue("server")
    server = TlsServer(
        tmp_path_factory.mktemp("tls"),
        files,
        THRIFT_TLS_CERT=issued.cert,
        THRIFT_TLS_KEY=issued.key,
        PARTIAL_FRAME_TIMEOUT_SECONDS=DEADLINE_SECONDS,
    )
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory, authority):
    """A server that wants certificates of its clients."""
    issued, ours = authority.issue("strict"), authority.issue("ours")
    server = TlsServer(
        tmp_path_factory.mktemp("strict"),
        TlsFiles(ca=authority.ca, cert=ours.cert, key=ours.key),
        THRIFT_TLS_CERT=issued.cert,
        THRIFT_TLS_KEY=issued.key,
        THRIFT_TLS_CLIENT_CA=authority.ca,
    )
    yield server
    assert server.stop() == 0


def in_environment(files):
    names = {"PINLATER_TLS_CA": files.ca, "PINLATER_TLS_CERT": files.cert, "PINLATER_TLS_KEY": files.key}
    return environment() | {name: os.fspath(path) for name, path in names.items() if path}


def tool(server, files, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pinlater.client.tool", *arguments, "--server", server.address],
        env=in_environment(files),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def raw_connection(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


# Those who fit


def test_large_bodies_go_both_ways_through_one_connection(server, files):
    bodies = [os.urandom(900_000) for _ in range(8)]
    with Client(server.address, tls=files) as client:
        client.create_queue("large")
        client.enqueue_jobs("large", [NewJob(body) for body in bodies])
        claimed = client.dequeue_jobs("large", 8)
        assert sorted(job.body for job in claimed) == sorted(bodies)
        for _ in range(50):  # small ones after the large, each in its turn
            assert "large" in client.queue_names()


def test_an_idle_connection_is_used_again(server, files):
    before = connections_opened(server)
    with Client(server.address, tls=files) as client:
        for _ in range(5):
            client.queue_names()
            time.sleep(0.05)
    assert connections_opened(server) - before == 1


def connections_opened(server):
    line = next(line for line in server.page("/metrics")[1].splitlines() if line.startswith("pinlater_connections_o"))
    return float(line.split()[1])


def test_the_asyncio_client(server, files):
    async def use():
        async with AsyncClient(server.address, tls=files) as client:
            await client.create_queue("async")
            await client.enqueue_jobs("async", [NewJob(b"x" * 300_000) for _ in range(20)])
            found = await asyncio.gather(*(client.dequeue_jobs("async", 5) for _ in range(4)))
            return sum(len(jobs) for jobs in found)

    assert asyncio.run(use()) == 20


def test_a_waiting_dequeue_gets_its_job(server, files):
    with Client(server.address, tls=files) as waiting, Client(server.address, tls=files) as client:
        client.create_queue("waiting")
        timer = asyncio.run(_enqueue_while_waiting(waiting, client))
    assert timer == 1


async def _enqueue_while_waiting(waiting, client):
    dequeue = asyncio.create_task(asyncio.to_thread(waiting.dequeue_jobs, "waiting", 1, wait=20))
    await asyncio.sleep(0.2)
    await asyncio.to_thread(client.enqueue_jobs, "waiting", [NewJob(b"x")])
    return len(await dequeue)


def test_the_tool_by_environment_and_by_options(strict_server):
    files = strict_server.tls
    assert tool(strict_server, files, "create-queue", "tooled").returncode == 0
    options = ("--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key)
    shown = tool(strict_server, TlsFiles(), "queues", *options)
    assert "tooled" in shown.stdout.split(), shown.stderr


def test_a_worker_runs_jobs_and_says_that_it_is_ready(strict_server, tmp_path):
    files = strict_server.tls
    (tmp_path / "tls_jobs.py").write_text(
        "from pinlater import Job\n\n\nclass Touch(Job, queue='touches'):\n    path: str\n\n"
        "    def run(self, context):\n        open(self.path, 'w').close()\n"
    )
    (health,) = free_ports(1)
    command = [sys.executable, "-m", "pinlater.worker.program", "tls_jobs.py", "--processes", "1"]
    command += ["--server", strict_server.address, "--health", str(health)]
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=in_environment(files), stdout=log, stderr=log)
    try:
        with Client(strict_server.address, tls=files) as client:
            client.create_queue("touches")

            class Touch(Job, queue="touches"):
                path: str

            handle = client.enqueue(Touch(path=str(tmp_path / "touched")))
            assert handle.wait(timeout=40).state.name == "SUCCEEDED", (tmp_path / "worker.log").read_text()
        assert (tmp_path / "touched").exists()
        assert _status(health) == 200
    finally:
        worker.terminate()
        assert worker.wait(40) == 0, (tmp_path / "worker.log").read_text()


def test_a_worker_that_does_not_trust_its_server_says_so_and_is_not_ready(server, stranger, tmp_path):
    (tmp_path / "jobs.py").write_text(
        "from pinlater import Job\n\n\nclass Nothing(Job):\n    def run(self, context):\n        pass\n"
    )
    (health,) = free_ports(1)
    command = [sys.executable, "-m", "pinlater.worker.program", "jobs.py", "--processes", "1", "--health", str(health)]
    command += ["--server", server.address, "--tls-ca", stranger.ca]
    log = tmp_path / "worker.log"
    with log.open("w") as file:
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=file, stderr=file)
    try:
        assert wait_for(lambda: "its certificate is not trusted" in log.read_text(), 40)
        assert wait_for(lambda: _status(health) == 503, 40)
    finally:
        worker.terminate()
        assert worker.wait(40) == 0, log.read_text()


def _status(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        return refusal.code


# Those who do not


def test_an_authority_that_the_client_does_not_know(server, stranger):
    with (
        Client(server.address, tls=TlsFiles(ca=stranger.ca), retries=0) as client,
        pytest.raises(ServerUnavailable, match=r"certificate is not trusted: .*PINLATER_TLS_CA"),
    ):
        client.queue_names()
    assert wait_for(lambda: "TLS handshake with 127.0.0.1 failed" in server.log)


def test_the_asyncio_client_says_so_too(server, stranger):
    async def use():
        async with AsyncClient(server.address, tls=TlsFiles(ca=stranger.ca), retries=0) as client:
            await client.queue_names()

    with pytest.raises(ServerUnavailable, match=r"certificate is not trusted: .*PINLATER_TLS_CA"):
        asyncio.run(use())


def test_a_certificate_of_another_host(authority, files, tmp_path):
    issued = authority.issue("elsewhere", "DNS:elsewhere.example.com")
    with (
        _answering_with(issued) as port,
        Client(f"tls://127.0.0.1:{port}", tls=files, retries=0) as client,
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

    import threading

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
        Client(strict_server.address, tls=files, retries=0) as client,
        pytest.raises(ServerUnavailable, match=r"certificate required.*PINLATER_TLS_CERT"),
    ):
        client.queue_names()
    assert wait_for(lambda: "it has no certificate, and THRIFT_TLS_CLIENT_CA wants one" in strict_server.log)


def test_a_client_with_a_strangers_certificate_is_told(strict_server, authority, stranger):
    theirs = stranger.issue("theirs")
    wrong = TlsFiles(ca=authority.ca, cert=theirs.cert, key=theirs.key)
    with (
        Client(strict_server.address, tls=wrong, retries=0) as client,
        pytest.raises(ServerUnavailable, match="does not accept our certificate"),
    ):
        client.queue_names()
    assert wait_for(lambda: "its certificate is not accepted" in strict_server.log)


def test_a_plain_client_at_the_tls_port(server):
    with (
        Client(f"127.0.0.1:{server.port}", tls=TlsFiles(), retries=0) as client,
        pytest.raises(CallError, match="it speaks TLS: write tls://host:port"),
    ):
        client.queue_names()
    assert wait_for(lambda: "it does not speak TLS, which this port does" in server.log)


def test_a_plain_asyncio_client_at_the_tls_port(server):
    async def use():
        async with AsyncClient(f"127.0.0.1:{server.port}", tls=TlsFiles(), retries=0) as client:
            await client.queue_names()

    with pytest.raises(CallError, match="it speaks TLS: write tls://host:port"):
        asyncio.run(use())


def test_a_tls_client_at_a_plain_port(shared_server, files):
    with (
        Client(f"tls://127.0.0.1:{shared_server.port}", tls=files, retries=0) as client,
        pytest.raises(ServerUnavailable),
    ):
        client.queue_names()
    assert wait_for(lambda: "it speaks TLS, which this port does not" in shared_server.log)


def test_a_tls_client_at_a_port_that_hangs_up_or_says_nothing(files):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tls://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(address, tls=files, retries=0, connect_timeout=0.5) as client,
            pytest.raises(ServerUnavailable, match="no answer"),
        ):
            client.queue_names()


def test_tls_1_1_is_refused(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with raw_connection(server) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock)


# Peers in trouble


def test_half_open_handshakes_are_cut_off_and_hold_up_nobody(server, files):
    hello = _client_hello()
    silent, partial = raw_connection(server), raw_connection(server)
    with silent, partial, Client(server.address, tls=files) as client:
        partial.sendall(hello[: len(hello) // 2])
        began = time.monotonic()
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


def test_damage_after_the_handshake_closes_the_connection(server, files):
    secure = files.context().wrap_socket(raw_connection(server), server_hostname="127.0.0.1")
    with socket.socket(fileno=secure.detach()) as sock:
        sock.sendall(b"\x17\x03\x03\x00\x10" + b"x" * 16)
        sock.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1000):
                pass
    assert wait_for(lambda: "damaged TLS" in server.log)


# Renewal


def test_renewed_certificates_are_used_without_a_restart(authority, stranger, tmp_path):
    issued = authority.issue("renewed")
    ca = tmp_path / "ca.pem"
    shutil.copy(authority.ca, ca)
    server = TlsServer(tmp_path, TlsFiles(ca=ca), THRIFT_TLS_CERT=issued.cert, THRIFT_TLS_KEY=issued.key)
    try:
        with Client(server.address, tls=TlsFiles(ca=ca)) as old:
            old.queue_names()
            served = server.child().pid
            Path(issued.cert).write_text("no certificate")
            assert wait_for(lambda: "what was read before stays in force" in server.log)
            with Client(server.address, tls=TlsFiles(ca=ca)) as client:
                client.queue_names()
            other = stranger.issue("renewal")
            shutil.copy(other.key, issued.key)
            shutil.copy(other.cert, issued.cert)
            with Client(server.address, tls=TlsFiles(ca=stranger.ca)) as client:
                wait_for(lambda: _answers(client))
            assert server.child().pid == served
            old.queue_names()  # what is connected stays so
        shutil.copy(stranger.ca, ca)  # and clients follow, too
        server.tls = TlsFiles(ca=ca)
        with Client(server.address, tls=server.tls) as client:
            wait_for(lambda: _answers(client))
    finally:
        assert server.stop() == 0


def _successor(server, pid):
    """Return whether another process serves now; between two of them, none does."""
    with contextlib.suppress(ValueError, IndexError, psutil.NoSuchProcess):
        return server.child().pid != pid


def _answers(client):
    try:
        client.queue_names()
    except ServerUnavailable:
        return False
    return True


def test_a_hup_takes_the_new_certificate_at_once(authority, stranger, tmp_path):
    issued, other = authority.issue("before"), stranger.issue("after")
    server = TlsServer(tmp_path, TlsFiles(ca=authority.ca), THRIFT_TLS_CERT=issued.cert, THRIFT_TLS_KEY=issued.key)
    try:
        shutil.copy(other.key, issued.key)
        shutil.copy(other.cert, issued.cert)
        server.process.send_signal(signal.SIGHUP)
        with Client(server.address, tls=TlsFiles(ca=stranger.ca)) as client:
            wait_for(lambda: _answers(client))
    finally:
        assert server.stop() == 0


def test_a_hup_with_files_that_are_broken_ends_nothing(authority, tmp_path):
    issued = authority.issue("broken")
    server = TlsServer(tmp_path, TlsFiles(ca=authority.ca), THRIFT_TLS_CERT=issued.cert, THRIFT_TLS_KEY=issued.key)
    try:
        served = server.child().pid
        Path(issued.cert).write_text("no certificate")
        Path(issued.key).unlink()
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: _successor(server, served))
        with Client(server.address, tls=server.tls) as client:
            wait_for(lambda: _answers(client))
        assert "what was read before stays in force" in server.log
    finally:
        assert server.stop() == 0


def test_the_end_of_the_certificate_is_a_metric(server):
    name = "pinlater_tls_certificate_expiry_timestamp_seconds "

    def shown():
        return [line for line in server.page("/metrics")[1].splitlines() if line.startswith(name)]

    [line] = wait_for(shown)
    assert float(line.split()[1]) == pytest.approx(time.time() + 2 * 86400, abs=600)


@pytest.mark.parametrize("days", [1, 10_000])  # after 2049 it is written in another form
def test_the_end_of_a_certificate_is_read(tmp_path, days):
    file = tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(tmp_path / "key.pem"), "-out", str(file), "-days", str(days), "-subj", "/CN=x"]
    subprocess.run(command, check=True, capture_output=True)
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(file), "-noout", "-enddate"], check=True, capture_output=True, text=True
    ).stdout
    assert expires_at(file) == ssl.cert_time_to_seconds(shown.strip().removeprefix("notAfter="))


def test_the_end_of_no_certificate_is_not_known(tmp_path):
    file = tmp_path / "cert.pem"
    assert expires_at(file) is None
    for body in ("", "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n"):
        file.write_text(body)
        assert expires_at(file) is None


# The Unix socket


def test_a_unix_socket_beside_the_port(tmp_path):
    path = tmp_path / "pinlater.sock"
    server = ServerProcess(tmp_path, THRIFT_UNIX_SOCKET=path)
    try:
        with Client(f"unix:{path}") as client:
            client.create_queue("local")
            assert client.queue_names() == {"local"}
        server.kill()
        server.start()  # what the dead one left there is replaced

        async def use():
            async with AsyncClient(f"unix:{path}") as client:
                return await client.queue_names()

        assert asyncio.run(use()) == {"local"}
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(str(path))
            sock.sendall(framed(b"rubbish"))
            assert is_closed(sock)
    finally:
        assert server.stop() == 0
    assert not path.exists()


def test_a_plain_call_still_works_as_ever(shared_server):
    with shared_server.socket() as sock:
        sock.sendall(names_call(3))
        assert decode_answer("getQueueNames", read_frame(sock))[0] == 3


# Files


@pytest.mark.parametrize("content", ["", "rubbish"])
def test_files_that_are_no_certificates_are_named(tmp_path, content):
    path = tmp_path / "ca.pem"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"ca\.pem: cannot be used for TLS"):
        TlsFiles(ca=path).context()


def test_a_key_with_a_passphrase_is_refused_and_nobody_asked(authority, tmp_path):
    issued = authority.issue("locked")
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", issued.key, "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="has a passphrase"):
        TlsFiles(ca=authority.ca, cert=issued.cert, key=locked).context()
