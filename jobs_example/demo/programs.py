"""Start the server and the worker as a user would, but in a separate folder and on free ports."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

START_SECONDS = 20.0
STOP_SECONDS = 20.0


class DemoError(Exception):
    """The demo cannot continue; the message says why and where to look."""


def free_ports(count: int) -> list[int]:
    """Return ports that are free at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def _environment() -> dict[str, str]:
    """Return the environment without the user's settings, so that the demo is the same everywhere."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
    return ours | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


class Program:
    """A program that runs while the ``with`` block lasts.

    Args:
        name: name of its script, beside the running Python.
        arguments: its command-line arguments.
        folder: where its output goes, as ``<name>.log``.
    """

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        path = Path(sys.executable).parent / name
        if not path.exists():
            raise DemoError(f"{path} is missing; run: make venv")
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C goes to the demo, which then stops its programs in order
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(patience_seconds=STOP_SECONDS if kind is None else 3.0)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise a DemoError if the program has ended by itself."""
        status = self._process.poll()
        if status is not None:
            raise DemoError(f"{self.name} ended with status {status}; the end of {self.log}:\n{self._tail()}")

    def stop(self, patience_seconds: float = STOP_SECONDS) -> int:
        """Stop the program with SIGTERM, then SIGKILL; return its exit status."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])


class Server(Program):
    """``pinlater-server`` with an SQLite store.

    Attributes:
        address: ``host:port`` of the service.
        admin_url: address of dashboard, health checks and metrics.
    """

    LOG = "pinlater-server.log"

    def __init__(self, folder: Path) -> None:
        port, admin_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self.admin_url = f"http://127.0.0.1:{admin_port}"
        options = ["--host", "127.0.0.1", "--port", str(port), "--admin-port", str(admin_port)]
        super().__init__("pinlater-server", ["--data-dir", str(folder / "data"), *options], folder)

    def wait_until_ready(self) -> None:
        """Wait until the server is ready.

        Raises:
            DemoError: it has ended, or takes too long.
        """
        opener = build_opener(ProxyHandler({}))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.check()
            try:
                with opener.open(f"{self.admin_url}/readyz", timeout=2):
                    return
            except (URLError, OSError):
                time.sleep(0.05)
        raise DemoError(f"the server is not ready after {START_SECONDS:g} s; see {self.log}")


class Worker(Program):
    """``pinlater-worker`` with the example jobs."""

    def __init__(self, folder: Path, server: Server, processes: int) -> None:
        arguments = ["jobs_example", "--processes", str(processes), "--server", server.address]
        super().__init__("pinlater-worker", arguments, folder)
