"""What systemd is told by the real programs, over a real socket: when they are ready, reload, live and stop."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from pinlater import Client
from pinlater.client import NewJob
from tests.support.ports import free_port, free_ports
from tests.support.server import ROOT, wait_for
from tests.support.units import SERVER, SYSTEMD, WORKER, Unit

PATIENCE_SECONDS = 30
WATCHDOG_SECONDS = 0.4

JOBS = """
from pathlib import Path
from pinlater import Job

class Note(Job, queue="notes"):
    text: str

    def run(self, context):
        with Path("notes.txt").open("a") as file:
            file.write(self.text + "\\n")
"""


class Service:
    """A program as systemd starts it: in its directory, with settings in the environment and a socket to report to."""

    def __init__(self, folder, program, *arguments, **settings):
        folder.mkdir()
        self.log_file = folder / "log"
        self.messages = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
        environment = kept | settings
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])
        environment["NOTIFY_SOCKET"] = str(folder / "notify")
        environment["WATCHDOG_USEC"] = str(int(WATCHDOG_SECONDS * 1e6))
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def expect(self, text):
        """Wait for a message with this text; return it as a mapping."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                self.messages.append(self._socket.recv(4096).decode())
            except TimeoutError:
                pytest.fail(f"never said {text}; said {self.messages}\n{self.log_file.read_text()}")
            if text in self.messages[-1]:
                return dict(line.split("=", 1) for line in self.messages[-1].splitlines())

    def says_anything_within(self, seconds):
        """Tell whether a message comes in this time."""
        self._socket.settimeout(seconds)
        try:
            self.messages.append(self._socket.recv(4096).decode())
        except TimeoutError:
            return False
        return True

    def hush(self):
        """Wait until the master is stopped, and take what it said before."""
        wait_for(lambda: psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)
        while self.says_anything_within(0.01):
            pass

    def stop(self):
        """End it in order; return the announced time in seconds and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        announced = self.expect("STOPPING=1")
        return int(announced["EXTEND_TIMEOUT_USEC"]) / 1e6, self.process.wait(PATIENCE_SECONDS)

    def end(self):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._socket.close()


@pytest.fixture
def start():
    services = []

    def start(*arguments, **settings):
        services.append(Service(*arguments, **settings))
        return services[-1]

    yield start
    for service in reversed(services):
        service.end()


@pytest.fixture
def start_server(start, tmp_path):
    """Start a server with the settings of its unit; return it and its address."""

    def start_server():
        port, admin_port = free_ports(2)
        server = start(
            tmp_path / "server",
            "pinlater.server.program",
            PINLATER_DATA_DIR=str(tmp_path / "data"),
            PINLATER_THRIFT_PORT=str(port),
            PINLATER_OSTRICH_PORT=str(admin_port),
        )
        return server, f"127.0.0.1:{port}"

    return start_server


def start_worker(start, folder, address):
    jobs = folder / "jobs.py"
    jobs.write_text(JOBS)
    return start(folder / "worker", "pinlater.worker.program", str(jobs), "--processes", "2", PINLATER_SERVERS=address)


def expect_reload(service):
    service.process.send_signal(signal.SIGHUP)
    assert int(service.expect("RELOADING=1")["MONOTONIC_USEC"]) > 0
    service.expect("READY=1")


def expect_watchdog(service, times=3):
    for _ in range(times):
        service.expect("WATCHDOG=1")


def test_a_server_that_is_ready_answers(start_server):
    server, address = start_server()
    server.expect("READY=1")
    with Client(address, retries=0, connect_timeout=30) as client:
        assert client.queue_names() == set()


def test_a_server_is_not_ready_before_it_can_answer(start, tmp_path):
    (tmp_path / "data").touch()  # where a directory should be
    server = start(
        tmp_path / "server",
        "pinlater.server.program",
        PINLATER_DATA_DIR=str(tmp_path / "data"),
        PINLATER_THRIFT_PORT="0",
        PINLATER_OSTRICH_PORT="0",
    )
    server.expect("STOPPING=1")
    prevented = Unit(SYSTEMD / SERVER)["Service", "RestartPreventExitStatus"].split()
    assert str(server.process.wait(PATIENCE_SECONDS)) in prevented
    assert not any("READY=1" in message for message in server.messages)


def test_the_life_of_a_server(start_server):
    server, address = start_server()
    server.expect("READY=1")
    expect_watchdog(server)
    with Client(address) as client:
        client.create_queue("notes")
        expect_reload(server)
        assert client.queue_names() == {"notes"}
    assert "STATUS=server 1/1, admin 1/1" in server.messages
    seconds, status = server.stop()
    assert status == 0
    assert seconds < Unit(SYSTEMD / SERVER).seconds("TimeoutStopSec"), "systemd would kill before the drain is over"


def test_the_life_of_a_worker(start, start_server, tmp_path):
    server, address = start_server()
    server.expect("READY=1")
    worker = start_worker(start, tmp_path, address)
    worker.expect("READY=1")
    worker.expect("WATCHDOG=1")
    with Client(address) as client:
        client.create_queue("notes")
        for text in ("before", "after"):
            handle = client.enqueue_jobs("notes", [NewJob(b'{"job": "Note", "text": "%s"}' % text.encode())])[0]
            wait_for(
                lambda handle=handle: client.lookup([handle])[handle].state.name == "SUCCEEDED",
                what=worker.log_file.read_text,
            )
            expect_reload(worker)
    expect_watchdog(worker)
    assert (tmp_path / "worker" / "notes.txt").read_text() == "before\nafter\n"
    assert "STATUS=jobs 2/2, keeper 1/1" in worker.messages
    seconds, status = worker.stop()
    assert status == 0
    assert seconds < Unit(SYSTEMD / WORKER).seconds("TimeoutStopSec"), "systemd would kill before the drain is over"


def test_a_worker_starts_and_stops_while_no_server_is_there(start, tmp_path):
    worker = start_worker(start, tmp_path, f"127.0.0.1:{free_port()}")
    worker.expect("READY=1")
    expect_watchdog(worker)
    assert worker.stop()[1] == 0


def test_a_worker_whose_jobs_cannot_be_loaded_is_never_ready(start, tmp_path):
    worker = start(tmp_path / "worker", "pinlater.worker.program", "no_such_module")
    worker.expect("STOPPING=1")
    prevented = Unit(SYSTEMD / WORKER)["Service", "RestartPreventExitStatus"].split()
    assert str(worker.process.wait(PATIENCE_SECONDS)) in prevented
    assert not any("READY=1" in message for message in worker.messages)
    assert "no_such_module" in worker.log_file.read_text()


def test_a_master_that_hangs_feeds_no_watchdog(start_server):
    server, _ = start_server()
    server.expect("READY=1")
    server.process.send_signal(signal.SIGSTOP)
    server.hush()
    assert not server.says_anything_within(4 * WATCHDOG_SECONDS)
    server.process.send_signal(signal.SIGCONT)
    server.expect("WATCHDOG=1")
    assert server.stop()[1] == 0
