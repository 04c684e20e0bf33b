"""The dashboard of a real server: over TLS, before logging in and after, and when its settings do not do."""

import contextlib
import html
import json
import re
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from pinlater import Client, __version__
from pinlater.server.log_rate_limit import MOST_A_SECOND
from tests.support.server import PASSWORD, PASSWORD_HASH, ServerProcess, command, environment, wait_for
from tests.system.worker_program import Worker, add_jobs, put

SECONDS = 30


@pytest.fixture
def start(tmp_path):
    started = []

    def start(**settings):
        started.append(ServerProcess(tmp_path / f"server{len(started)}", **{"DASHBOARD": "true"} | settings))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


def exchange(port, sent):
    """Send bytes and return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as sock:
        sock.sendall(sent)
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
        return answer


class Browser:
    """Keeps cookies, follows redirects, sends forms with their origin."""

    def __init__(self, base, context=None):
        self._base = base
        handlers = [urllib.request.HTTPCookieProcessor(), urllib.request.HTTPSHandler(context=context)]
        self._opener = urllib.request.build_opener(*handlers)

    def __call__(self, path, **fields):
        request = urllib.request.Request(self._base + path)
        if fields:
            request.data = urllib.parse.urlencode(fields).encode()
            request.add_header("Origin", self._base)
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()


def token_in(page):
    return re.search(r'name="csrf" value="([^"]+)"', page)[1]


def test_the_dashboard_is_where_metrics_and_health_are(start):
    server = start(ADMIN_PASSWORD_HASH="")
    with server.client() as client:
        client.createQueue(name="pins")
    status, page = server.page("/")
    assert status == 200
    assert 'href="/queues/pins"' in page
    assert server.page("/livez") == (200, "ok\n")
    assert server.page("/readyz") == (200, "ok\n")
    assert "pinlater_call_seconds" in server.page("/metrics")[1]
    wait_for(lambda: "createQueue" in server.page("/stats.txt")[1])
    wait_for(lambda: ">ready<" in server.page("/server")[1])
    assert "pinlater.db</td>" in server.page("/server")[1]  # the only shard


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_a_worker_is_seen_with_its_processes_and_since_when_its_job_runs(start, tmp_path):
    server = start(ADMIN_PASSWORD_HASH="")
    add_jobs(tmp_path, "jobs")
    with Client(server.address) as client:
        client.create_queue("sleeps")
        descriptor = put(client, "Sleep", "sleeps", name="nap", seconds=60)
    with Worker(tmp_path, "jobs", "--server", server.address, "--queue", "sleeps", "--processes", 2) as worker:
        process = rf"\d+ {descriptor} (\d+ s ago|now) 1 of \d+ sleeps 0 [\d.]+ MiB"
        named = rf"Worker {worker.process.pid} {re.escape(__version__)} Python .* 1 of 2 busy"
        seen = rf"{named} .*{process}.* \d+ idle sleeps 0"
        wait_for(lambda: re.search(seen, text_of(server.page("/workers")[1])), seconds=60)
        assert "Other clients" not in server.page("/workers")[1]
        wait_for(lambda: "Running since" in server.page(f"/job?id={descriptor}")[1], seconds=60)


def test_a_queue_is_deleted_with_the_password_given_once_more(start):
    server = start()
    with server.client() as client:
        client.createQueue(name="pins")
        browse = Browser(f"http://127.0.0.1:{server.admin_port}")
        assert "Log in" in browse("/queues/pins")[1]
        status, page = browse("/login", password=PASSWORD, next="/queues/pins")
        assert status == 200
        csrf = token_in(page)
        assert browse("/queues/pins/delete", csrf=csrf, name="pins", password="wrong")[0] == 400
        assert set(client.getQueueNames()) == {"pins"}
        assert browse("/queues/pins/delete", csrf=csrf, name="pins", password=PASSWORD)[0] == 200
        assert set(client.getQueueNames()) == set()
    assert "pinlater.audit: who=admin@127.0.0.1 action=delete-queue subject=pins" in server.log
    assert PASSWORD not in server.log


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")
def test_over_tls(start, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(make, check=True, capture_output=True, timeout=SECONDS)
    server = start(ADMIN_TLS_CERT=str(cert), ADMIN_TLS_KEY=str(key))
    browse = Browser(f"https://127.0.0.1:{server.admin_port}", ssl.create_default_context(cafile=cert))
    assert browse("/livez") == (200, "ok\n")
    assert "Pause" not in browse("/")[1]
    assert "No queues yet" in browse("/login", password=PASSWORD)[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ADMIN_HOST": "0.0.0.0"}, "ADMIN_PASSWORD_HASH"),
        ({"ADMIN_HOST": "0.0.0.0", "ADMIN_PASSWORD_HASH": PASSWORD_HASH}, "ADMIN_ALLOW_PLAIN=true"),
        ({"ADMIN_TLS_CERT": "/nowhere.pem"}, "belong together"),
        ({"ADMIN_TLS_CERT": "/nowhere.pem", "ADMIN_TLS_KEY": "/nowhere.pem"}, "cannot be read"),
    ],
)
def test_settings_that_do_not_do_end_it_with_78(tmp_path, settings, said):
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    ports = ["--port", "0", "--admin-port", "0", "--data-dir", str(tmp_path)]
    ended = subprocess.run(
        command(*ports, *options), capture_output=True, text=True, timeout=SECONDS, env=environment(), check=False
    )
    assert ended.returncode == 78, ended.stderr
    assert said in ended.stderr


def test_a_certificate_that_cannot_be_read_is_told_as_a_line_of_json_where_the_log_is(tmp_path):
    settings = tmp_path / "server.conf"
    settings.write_text("LOG_FORMAT=json\nADMIN_TLS_CERT=/nowhere.pem\nADMIN_TLS_KEY=/nowhere.pem\n")
    options = ["--config", str(settings), "--port", "0", "--admin-port", "0", "--data-dir", str(tmp_path)]
    ended = subprocess.run(
        command(*options), capture_output=True, text=True, timeout=SECONDS, env=environment(), check=False
    )
    assert ended.returncode == 78, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert "/nowhere.pem: cannot be read" in json.loads(line)["message"]


def test_without_the_dashboard_there_are_the_other_pages(start):
    server = start(DASHBOARD="false")
    assert "pinlater[dashboard]" in server.page("/")[1]
    assert server.page("/queues/pins")[0] == 404
    assert server.page("/livez") == (200, "ok\n")


HOSTILE = [
    b"\r\n\r\n" + bytes(100),
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + b"x" * 200_000,
    b"\x16\x03\x01" + bytes(200) + b"\n\n",
    b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    b"POST /plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]


def test_what_is_no_request_is_refused(start):
    server = start(ADMIN_PASSWORD_HASH="")
    for sent in HOSTILE:
        with contextlib.suppress(ConnectionError):  # closed over bytes that it did not want to read
            assert exchange(server.admin_port, sent)[9:12] in {b"400", b"403", b"404", b"415", b"431", b""}, sent[:60]
        assert server.page("/livez") == (200, "ok\n")


def test_a_request_that_does_not_come_is_not_waited_for(start):
    server = start(ADMIN_PASSWORD_HASH="")
    kind = "Content-Type: application/x-www-form-urlencoded\r\nOrigin: http://127.0.0.1"
    head = f"POST /plans HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}\r\nContent-Length: 100\r\n\r\na="
    assert b" 408 " in exchange(server.admin_port, head.encode())[:30]


def test_unknown_clients_cannot_fill_the_log(start):
    server = start()
    for _ in range(400):
        with contextlib.suppress(ConnectionError):
            assert b" 400 " in exchange(server.admin_port, b"rubbish\r\n\r\n")
    lines = [line for line in server.log.splitlines() if "Invalid HTTP request" in line]
    seconds = {line[: len("2026-01-01T00:00:00")] for line in lines}
    assert 0 < len(lines) <= MOST_A_SECOND * 2 * len(seconds)  # the filter's seconds are not those of the log
