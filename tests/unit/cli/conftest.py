"""The tool, run in this process against a server of the tests."""

import contextlib
import io
import json
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pinlater.cli.program import run
from tests.unit.client.fake_server import FakeServer


@pytest.fixture
def server(monkeypatch):
    with FakeServer(lambda _: None) as server:
        monkeypatch.setenv("PINLATER_SERVERS", str(server.address))
        yield server


@pytest.fixture
def tool_run(capsysbinary):
    """Run the tool; return exit status, stdout and stderr as text."""

    def run_it(*words):
        status = run(words)
        out, err = capsysbinary.readouterr()
        return status, out.decode(), err.decode()

    return run_it


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    give(b"")
    return give


@pytest.fixture
def no_password(stdin, monkeypatch):
    """Neither the environment nor a terminal has one."""
    monkeypatch.delenv("PINLATER_ADMIN_PASSWORD", raising=False)


class Page(BaseHTTPRequestHandler):
    """Metrics for readers, and a webhook that takes notes."""

    def do_GET(self):
        text, status = self.server.pages.get(self.path, ("", 404))
        self._answer(status, text() if callable(text) else text)

    def do_POST(self):
        self.server.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(self.server.post_status, "")

    def _answer(self, status, text):
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Greeting(socketserver.BaseRequestHandler):
    """Answers as an SSH server does."""

    def handle(self):
        self.request.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
        while self.request.recv(65536):  # or the kernel would reset the connection
            pass


@pytest.fixture
def no_http():
    """Return the address of a server that does not speak HTTP."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server, serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"


@contextlib.contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield
    server.shutdown()
    thread.join()


@pytest.fixture
def web():
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        server.pages, server.posted, server.post_status = {}, [], 200
        server.url = f"http://127.0.0.1:{server.server_port}"
        with serving(server):
            yield server
