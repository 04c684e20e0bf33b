"""What systemd is told, over a real socket."""

import os
import signal
import socket
from contextlib import suppress

import pytest
from pinlater_supervisor.notify import Notifier


class Systemd:
    """The listening end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(20)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def expect_sooner_or_later(self, text: str) -> None:
        if not any(text in message for message in self.heard):
            self.expect(text)

    def expect(self, text: str) -> str:
        """Return the next message with this text in it."""
        while True:
            self.heard.append(self._socket.recv(4096).decode())
            if text in self.heard[-1]:
                return self.heard[-1]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    address = str(tmp_path / "notify") if request.param == "path" else f"@pinlater-test-{os.getpid()}"
    listener = Systemd(address)
    yield listener
    listener.close()


def test_a_life_is_told(start, systemd):
    master = start(
        """
        def run(child):
            say("environ", sorted(key for key in os.environ if key in ("NOTIFY_SOCKET", "WATCHDOG_USEC")))
            child.status("serving")
            worker(child)

        supervise(Pool(name="jobs", run=run), Pool(name="many", size=2, run=worker), drain_seconds=20)
        """,
        NOTIFY_SOCKET=systemd.address,
    )
    systemd.expect("READY=1")
    systemd.expect_sooner_or_later("STATUS=jobs 1/1 serving, many 2/2")
    assert "WATCHDOG=1" not in systemd.heard
    master.expect_all("environ []", "ready jobs 0", "ready many 0", "ready many 1")
    master.send(signal.SIGHUP)
    reloading = dict(line.split("=") for line in systemd.expect("RELOADING=1").splitlines())
    assert int(reloading["MONOTONIC_USEC"]) > 0
    systemd.expect("READY=1")
    master.send(signal.SIGTERM)
    stopping = systemd.expect("STOPPING=1")
    assert int(stopping.split("EXTEND_TIMEOUT_USEC=")[1]) >= 20_000_000
    systemd.expect("STATUS=stopping")
    assert master.wait() == 0


def test_ready_waits_for_every_pool(start, tmp_path):
    systemd = Systemd(str(tmp_path / "notify"))
    master = start(
        """
        def late(child):
            while not os.path.exists(sys.argv[0] + ".go"):
                time.sleep(0.01)
            worker(child)

        supervise(Pool(name="jobs", run=worker), Pool(name="late", run=late))
        """,
        NOTIFY_SOCKET=systemd.address,
    )
    systemd.expect("STATUS=jobs 1/1, late 0/1")
    assert "READY=1" not in systemd.heard
    (tmp_path / "0" / "program.py.go").touch()
    systemd.expect("READY=1")
    assert master.stop() == 0
    systemd.close()


def test_the_main_loop_feeds_the_watchdog(start, tmp_path):
    systemd = Systemd(str(tmp_path / "notify"))
    master = start('supervise(Pool(name="jobs", run=worker))', NOTIFY_SOCKET=systemd.address, WATCHDOG_USEC="200000")
    for _ in range(3):
        systemd.expect("WATCHDOG=1")
    assert master.stop() == 0
    systemd.close()


def test_a_watchdog_meant_for_another_process_is_left_alone(tmp_path):
    systemd = Systemd(str(tmp_path / "notify"))
    environ = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    notifier = Notifier(environ)
    assert notifier.beat(1e9) == float("inf")
    assert environ == {}
    notifier.close()
    systemd.close()


def test_what_a_full_socket_does_not_take_is_sent_later(tmp_path):
    systemd = Systemd(str(tmp_path / "notify"))
    sent = fill(systemd.address)
    notifier = Notifier({"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "20000000"})
    notifier.ready()
    notifier.status("jobs 1/2")
    notifier.reloading()
    notifier.status("jobs 2/2")
    notifier.ready()
    assert notifier.beat(100.0) == 101.0
    for _ in range(sent):
        systemd.expect("x")
    systemd.heard.clear()
    assert notifier.beat(101.0) == 110.0
    systemd.expect("WATCHDOG=1")
    assert [message.split("\n")[0] for message in systemd.heard] == [
        "RELOADING=1",
        "STATUS=jobs 2/2",
        "READY=1",
        "WATCHDOG=1",
    ]
    notifier.close()
    systemd.close()


def fill(address: str) -> int:
    """Send messages to a socket until it takes none, not even from another sender; return their number."""
    sent, is_full = 0, False
    while not is_full:
        is_full = True
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(BlockingIOError):
            sender.setblocking(False)
            sender.connect(address)
            while True:
                sender.send(b"x")
                sent, is_full = sent + 1, False
    return sent


def test_an_unreachable_socket_is_no_reason_to_fail(tmp_path):
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notifier.ready()
    notifier.close()
