"""The limit of open files that a server is started with, and what becomes of connections beyond it."""

import contextlib
import socket

import pytest

from pinlater.server.net.open_files import SPARE
from tests.integration.test_hostile_peers import names_call, read_frame
from tests.support import server as support
from tests.support.server import ServerProcess, wait_for


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a server under limits of open files, a soft one and a hard one."""
    plain = support.command
    with contextlib.ExitStack() as stack:

        def start(soft, hard, **settings):
            limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
            monkeypatch.setattr(support, "command", lambda *a, **kw: ["sh", "-c", limits, "sh", *plain(*a, **kw)])
            server = ServerProcess(tmp_path / "server", **settings)
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def connect():
    """Make connections that are closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda server, count: [stack.enter_context(server.socket()) for _ in range(count)]


def answered(sock):
    sock.sendall(names_call(1))
    return read_frame(sock)


def test_a_limit_that_may_be_raised_is_no_limit(start, connect):
    server = start(80, SPARE + 150, MAX_CONNECTIONS=150)
    assert all(answered(sock) for sock in connect(server, 140))
    assert "limit of open files" not in server.log


def test_a_limit_that_is_too_low_is_told_and_leaves_files_for_the_store(start, connect):
    server = start(80, 80)
    assert "the limit of open files is 80, enough for 20 connections" in server.log
    assert "raise the hard limit" in server.log
    process = server.child()
    (early,) = connect(server, 1)
    crowd = connect(server, 150)
    wait_for(lambda: "refused: 20 are open (MAX_CONNECTIONS, or the limit of open files)" in server.log)
    wait_for(lambda: process.num_fds() < 70)
    for _ in range(50):
        assert answered(early)  # whoever is connected notices nothing
    for sock in crowd:
        sock.close()

    def comes_in():
        with contextlib.suppress(OSError, EOFError), server.socket() as late:
            return answered(late)

    assert wait_for(comes_in)
    assert server.child() == process


def test_an_admin_port_without_files_for_connections_does_not_fill_the_log(start):
    server = start(40, 40)
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.admin_port), timeout=20))
        wait_for(lambda: "records before this were left out" in server.log)
    assert wait_for(lambda: server.page("/readyz") == (200, "ok\n"))
