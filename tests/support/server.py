"""A real ``pinlater-server`` for tests of the service: its own processes, folder, ports and settings."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
from thrift.transport.TTransport import TTransportException

from tests.support.apache import ApacheClient
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
START_SECONDS = 60
"""For one that hangs: one that ends is noticed at once, and eight of them start together on a busy machine."""

PASSWORD = "open sesame"
PASSWORD_HASH = (  # at a cost that lets tests be quick
    "scrypt$1024$8$1$MDEyMzQ1Njc4OWFiY2RlZg==$qrn7ZhlST3jO5Auifbc3xCWPabXREAX1HDl5f9rqSnA="
)


def environment():
    """Return the environment for our programs: this source tree, no settings of whoever runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
    return kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])}


def command(*options, module="pinlater.server.program"):
    return [sys.executable, "-m", module, *options]


class ServerProcess:
    """A server; may be killed and started again on the same data.

    Args:
        folder: for its data and its log.
        module: the program.
        settings: of the server, by key. Without ``DASHBOARD="true"`` it has none, and starts in half the time.
    """

    def __init__(self, folder, module="pinlater.server.program", **settings):
        self._folder = Path(folder)
        self._module = module
        self._folder.mkdir(exist_ok=True)
        self._settings = {"ADMIN_PASSWORD_HASH": PASSWORD_HASH, "DASHBOARD": "false"} | settings
        self.port, self.admin_port = free_ports(2)
        self.process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        options = ["--data-dir", str(self._folder / "data"), "--host", "127.0.0.1"]
        options += ["--port", str(self.port), "--admin-port", str(self.admin_port)]
        for key, value in self._settings.items():
            options += ["--set", f"{key}={value}"]
        with (self._folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                command(*options, module=self._module),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        self._await_answer()

    @property
    def data(self):
        """The folder of its store."""
        return self._folder / "data"

    @property
    def log(self):
        return (self._folder / "server.log").read_text()

    def _await_answer(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.client() as client:
                    client.getQueueNames()
            except (TTransportException, OSError):
                assert self.process.poll() is None, self.log
                if time.monotonic() > deadline:
                    self.kill()
                    raise TimeoutError(self.log) from None
                time.sleep(0.05)
            else:
                return

    def client(self, source="apache", **options):
        return ApacheClient(self.port, source, **options)

    def socket(self):
        """Return a plain connection."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def children(self, title="pinlater-server"):
        """Return the processes with that title; the admin process has another one."""
        return [one for one in children_of(self.process.pid) if _title(one) == title]

    def child(self, title="pinlater-server"):
        """Return the only process with that title."""
        (found,) = self.children(title)
        return found

    def page(self, path):
        """Return status and text of a page of the admin port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def kill(self):
        """End it the hard way, with all its processes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self):
        """End it in order; return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def _title(process):
    try:
        return process.cmdline()[0]
    except (psutil.Error, IndexError):  # it has just ended
        return ""


def children_of(pid):
    """Return the children of a process; psutil would read about every process of the machine for that."""
    try:
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:  # no such process
        return []
    found = []
    for child in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(int(child)))
    return found


def wait_for(condition, seconds=60.0, what=lambda: "it did not happen in time"):
    """Wait until a condition holds, fail with ``what()`` if that takes too long; return its value.

    The longer it takes, the less often the condition is looked at: what waits must not eat the time of what works.
    """
    deadline, pause = time.monotonic() + seconds, 0.01
    while not (found := condition()):
        assert time.monotonic() < deadline, what()
        time.sleep(pause)
        pause = min(pause * 1.2, 0.1)
    return found
