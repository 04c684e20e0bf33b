"""The pages on the master's loop: what they say, and that no peer can hold the loop up."""

import errno
import http.client
import os
import selectors
import signal
import socket
import time
from contextlib import suppress

import psutil
import pytest
from pinlater_supervisor import HttpListener
from pinlater_supervisor.listener import CONNECTION_SECONDS, MOST_CONNECTIONS

LISTEN = """
        from pinlater_supervisor import HttpListener, Unavailable

        def broken():
            raise ValueError("no page today")

        def absent():
            raise Unavailable("come back later")

        pages = {"/metrics": lambda: b"jobs 7\\n", "/broken": broken, "/absent": absent}
        pages["/large"] = lambda: b"x" * 30_000_000
        listener = HttpListener(routes=pages)
        say("port", listener.address.rpartition(":")[2])
"""
SERVE = """
        supervise(Pool(name="jobs", run=worker), listener=listener)
"""


@pytest.fixture
def serve(start):
    """Start a program with a listener; return it and its port."""

    def serve(text=SERVE):
        master = start(LISTEN + text)
        return master, int(master.expect("port")[1])

    return serve


def get(port, path="/livez", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    connection.request(method, path)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode()
    connection.close()
    return found


def ask(port, data):
    """Send bytes; return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=15) as peer:
        peer.sendall(data)
        return b"".join(iter(lambda: peer.recv(65536), b""))


def await_page(port, path, page):
    deadline = time.monotonic() + 20
    while (found := get(port, path)) != page:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_pages(serve):
    master, port = serve()
    master.expect("ready jobs 0")
    await_page(port, "/readyz", (200, "ok\n"))
    assert get(port, "/livez?verbose") == (200, "ok\n")
    assert get(port, "/metrics") == (200, "jobs 7\n")
    assert get(port, "/absent") == (503, "come back later\n")
    assert get(port, "/broken") == (500, "this page failed; see the log\n")
    assert get(port, "/")[0] == 404
    assert get(port, "/livez", "HEAD") == (200, "")
    assert get(port, "/livez", "POST")[0] == 405
    master.expect_log("no page today")
    master.expect_log(f"health checks at http://127.0.0.1:{port}/livez")
    assert master.stop() == 0


def test_ready_means_that_all_children_are(serve):
    master, port = serve("""
        def run(child):
            while not os.path.exists(sys.argv[0] + ".go"):
                time.sleep(0.01)
            worker(child)

        supervise(Pool(name="keeper", run=worker), Pool(name="jobs", run=run, size=2), listener=listener)
    """)
    await_page(port, "/readyz", (503, "pool jobs: 0 of 2 children ready\n"))
    assert get(port, "/livez") == (200, "ok\n")
    master.path.with_name("program.py.go").touch()
    await_page(port, "/readyz", (200, "ok\n"))
    assert master.stop() == 0


def test_a_reason_of_the_program_s_own(serve):
    master, port = serve("""
        why = lambda: "the moon is full" if os.path.exists(sys.argv[0] + ".moon") else ""
        supervise(Pool(name="jobs", run=worker), listener=listener, unready=why)
    """)
    await_page(port, "/readyz", (200, "ok\n"))
    master.path.with_name("program.py.moon").touch()
    assert get(port, "/readyz") == (503, "the moon is full\n")
    assert master.stop() == 0


def test_a_master_that_stops_is_alive_and_not_ready(serve):
    master, port = serve("""
        def run(child):
            worker(child)
            while not os.path.exists(sys.argv[0] + ".go"):
                time.sleep(0.01)

        supervise(Pool(name="jobs", run=run), listener=listener)
    """)
    master.expect("ready jobs 0")
    master.send(signal.SIGTERM)
    master.expect("drained")
    assert get(port, "/readyz") == (503, "stopping\n")
    assert get(port, "/livez") == (200, "ok\n")
    master.path.with_name("program.py.go").touch()
    assert master.wait() == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"GET /livez\r\n\r\n", b"400"),
        (b"GET /livez HTTP/2\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        (b"GET / " + b"x" * 100_000, b"431"),
        (b"GET /livez HTTP/1.0\n\n", b"200"),
        (b"GET /livez HTTP/1.1\r\nA: b\r\n\r\n" + b"x" * 20_000, b"200"),
    ],
)
def test_strange_requests(serve, data, status):
    master, port = serve()
    assert ask(port, data).split(b" ")[1] == status
    assert get(port) == (200, "ok\n")
    assert master.stop() == 0


def test_a_request_in_pieces(serve):
    master, port = serve()
    with socket.create_connection(("127.0.0.1", port), timeout=15) as peer:
        for piece in (b"GET /li", b"vez HTTP/1.1\r", b"\nHost: x\r\n\r", b"\n"):
            peer.sendall(piece)
            time.sleep(0.05)
        assert peer.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
    assert master.stop() == 0


def test_peers_that_say_nothing_are_sent_away(serve):
    master, port = serve()
    with socket.create_connection(("127.0.0.1", port), timeout=4 * CONNECTION_SECONDS) as peer:
        assert get(port) == (200, "ok\n")
        assert peer.recv(1) == b""
    assert master.stop() == 0


def test_peers_that_hoard_connections_lock_nobody_out(serve):
    master, port = serve()
    hoard = [socket.create_connection(("127.0.0.1", port), timeout=15) for _ in range(3 * MOST_CONNECTIONS)]
    for _ in range(5):
        assert get(port) == (200, "ok\n")
    hoard[0].settimeout(0.5 * CONNECTION_SECONDS)
    assert hoard[0].recv(1) == b""  # made room for later ones
    for peer in hoard:
        peer.close()
    assert master.stop() == 0


def test_a_peer_that_made_room_may_have_said_something_at_that_moment(serve):
    master, port = serve()
    master.expect("ready jobs 0")
    hoard = [socket.create_connection(("127.0.0.1", port), timeout=15) for _ in range(MOST_CONNECTIONS)]
    while len(psutil.Process(master.pid).net_connections()) <= MOST_CONNECTIONS:
        time.sleep(0.01)  # until all are accepted
    os.kill(master.pid, signal.SIGSTOP)
    late = socket.create_connection(("127.0.0.1", port), timeout=15)
    for peer in hoard:
        peer.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
    os.kill(master.pid, signal.SIGCONT)  # it finds all of that at once
    answers = [read_all(peer) for peer in hoard]  # before another connection asks for room
    late.close()
    assert sum(answer.startswith(b"HTTP/1.1 200") for answer in answers) == MOST_CONNECTIONS - 1
    assert get(port) == (200, "ok\n")
    assert "Traceback" not in master.log
    assert master.stop() == 0


def read_all(peer):
    with peer, suppress(ConnectionError):
        return b"".join(iter(lambda: peer.recv(65536), b""))
    return b""


def test_peers_that_do_not_read_hold_nothing_up(serve):
    master, port = serve()
    with socket.create_connection(("127.0.0.1", port), timeout=15) as peer:
        peer.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert get(port) == (200, "ok\n")
        assert len(get(port, "/large")[1]) == 30_000_000
        time.sleep(CONNECTION_SECONDS)
        assert get(port) == (200, "ok\n")
    assert master.stop() == 0


def test_peers_that_reset_their_connection_do_no_harm(serve):
    master, port = serve()
    for data in (b"", b"GET", b"GET /large HTTP/1.1\r\n\r\n"):
        peer = socket.create_connection(("127.0.0.1", port))
        peer.sendall(data)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
    assert get(port) == (200, "ok\n")
    assert master.stop() == 0


def test_children_hold_no_connection_and_no_port(serve):
    master, port = serve()
    pid = int(master.expect("ready jobs 0")[3])
    quiet = socket.create_connection(("127.0.0.1", port), timeout=15)
    get(port)  # the quiet one is accepted by now
    os.kill(pid, signal.SIGKILL)  # its successor is forked while the connection is open
    successor = int(master.expect("ready jobs 0")[3])
    assert psutil.Process(successor).net_connections() == []
    hold = [socket.create_connection(("127.0.0.1", port), timeout=15) for _ in range(MOST_CONNECTIONS)]
    assert quiet.recv(1) == b""
    for peer in (quiet, *hold):
        peer.close()
    assert master.stop() == 0


def test_out_of_descriptors_it_pauses_and_goes_on(serve):
    master, port = serve("""
        import resource
        worst = len(os.listdir("/proc/self/fd")) + 14
        resource.setrlimit(resource.RLIMIT_NOFILE, (worst, worst))
        supervise(Pool(name="jobs", run=worker), listener=listener)
    """)
    master.expect("ready jobs 0")
    hoard = [socket.create_connection(("127.0.0.1", port), timeout=15) for _ in range(30)]
    master.expect_log("cannot accept a connection")
    for peer in hoard:
        peer.close()
    assert get(port) == (200, "ok\n")
    assert master.log.count("cannot accept a connection") < 10
    assert master.stop() == 0


class Crowded(selectors.DefaultSelector):
    """Takes a limited number of files, as the system does (fs.epoll.max_user_watches)."""

    def register(self, *arguments):
        if len(self.get_map()) >= 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().register(*arguments)


def test_a_system_without_room_for_a_connection_ends_that_connection_alone():
    listener = HttpListener()
    with Crowded() as selector:
        listener.attach(selector)
        host, port = listener.address.split(":")
        with socket.create_connection((host, int(port)), timeout=15) as peer:
            [(key, events)] = selector.select(15)
            key.data(events)
            assert peer.recv(1) == b""
        assert len(selector.get_map()) == 1
        listener.close()


def test_a_port_that_is_taken_is_an_error_at_once():
    listener = HttpListener()
    with pytest.raises(OSError, match="in use"):
        HttpListener("127.0.0.1", int(listener.address.rpartition(":")[2]))
    listener.close()
