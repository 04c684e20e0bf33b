"""A real server for the tests of clients: its own process, folder and ports."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from pinlater import Client
from pinlater.errors import CallError

ROOT = Path(__file__).parents[2]
PASSWORD_HASH = (  # of "open sesame", at a cost that lets tests be quick
    "scrypt$1024$8$1$MDEyMzQ1Njc4OWFiY2RlZg==$qrn7ZhlST3jO5Auifbc3xCWPabXREAX1HDl5f9rqSnA="
)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class RealServer:
    """A ``pinlater-server``; may be killed and started again on the same data."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._process = None
        self.start()

    def start(self):
        command = [sys.executable, "-m", "pinlater.server.program", "--data-dir", str(self._folder / "data")]
        command += ["--port", str(self._port), "--admin-port", str(free_port())]
        command += ["--set", f"ADMIN_PASSWORD_HASH={PASSWORD_HASH}"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])
        with (self._folder / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._await_answer()

    def _await_answer(self):
        deadline = time.monotonic() + 30
        with Client(self.address, retries=0) as client:
            while True:
                try:
                    client.queue_names()
                except CallError:
                    assert self._process.poll() is None, (self._folder / "server.log").read_text()
                    assert time.monotonic() < deadline, (self._folder / "server.log").read_text()
                    time.sleep(0.05)
                else:
                    return

    def kill(self):
        """End it the hard way, with all its processes."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    def stop(self):
        """End it in order."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
