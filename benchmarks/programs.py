"""The real programs, on free ports, in a separate folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil

from benchmarks.ports import free_ports
from pinlater import Client
from pinlater.client.address import Address
from pinlater.client.connection import Connection
from pinlater.errors import CallError

START_SECONDS = 30.0
STOP_SECONDS = 20.0

_CHECKOUT = Path(__file__).parents[1]


class ProgramFailed(Exception):
    """A program did not do what it was started for; the message has the end of its log."""


class _Program:
    def __init__(self, module: str, arguments: list[str], log: Path) -> None:
        self._name = module
        self._log = log
        with log.open("a") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {module} import main; main()", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=_CHECKOUT,
                env=environment(),
                start_new_session=True,  # ^C reaches only this process, which then stops the programs in order
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def wait(self) -> None:
        """Wait until the program has ended."""
        self._process.wait(STOP_SECONDS)

    @property
    def pid(self) -> int:
        """Id of the program's first process."""
        return self._process.pid

    def check(self) -> None:
        """Raise ProgramFailed if the program has ended by itself."""
        if self._process.poll() is not None:
            raise self._failed(f"ended with status {self._process.returncode}")

    def cpu_seconds(self) -> float:
        """Return the processor time of all the program's processes so far."""
        times = [process.cpu_times() for process in self._family()]
        return sum(t.user + t.system for t in times)

    def memory_mb(self) -> float:
        """Return the memory of all the program's processes in MB, counting shared memory once."""
        return sum(process.memory_full_info().pss for process in self._family()) / 1e6

    def _family(self) -> list[psutil.Process]:
        master = psutil.Process(self._process.pid)
        return [master, *master.children(recursive=True)]

    @property
    def last_words(self) -> str:
        """The end of the program's log, for people."""
        words = "\n".join(self._log.read_text(errors="replace").splitlines()[-5:])
        return f"last words of {self._name}:\n{words}"

    def _failed(self, what: str) -> ProgramFailed:
        return ProgramFailed(f"{self._name} {what}; {self.last_words}")


class Server(_Program):
    """``pinlater-server`` with default settings, except for those of its store and the dashboard.

    Args:
        folder: folder of its data.
        settings: more settings, each ``KEY=VALUE``.
        marks: file in which it marks the stages of its calls; None for no marks.
        ports: ports of the service and of the admin endpoint; None for free ones.
        has_dashboard: whether it serves the dashboard, which makes it start more slowly.

    Attributes:
        address: address of the service.
        admin_port: port of the dashboard.
    """

    def __init__(
        self,
        folder: Path,
        settings: Sequence[str],
        *,
        marks: Path | None = None,
        ports: tuple[int, int] | None = None,
        has_dashboard: bool = False,
    ) -> None:
        port, self.admin_port = ports or free_ports(2)
        self.address = Address("127.0.0.1", port)
        arguments = ["--data-dir", str(folder), "--port", str(port), "--admin-port", str(self.admin_port)]
        for setting in (f"DASHBOARD={str(has_dashboard).lower()}", *settings):
            arguments += ["--set", setting]
        if marks is None:
            super().__init__("pinlater.server.program", arguments, folder / "server.log")
        else:
            super().__init__("benchmarks.marked_server", [str(marks), *arguments], folder / "server.log")

    def __enter__(self) -> Self:
        try:
            self.await_answer()
        except BaseException:  # also for ^C: the program must not outlive this process
            self.__exit__()
            raise
        return self

    def await_answer(self) -> None:
        """Wait until the server answers calls."""
        deadline = time.monotonic() + START_SECONDS
        with Client(str(self.address), retries=0) as client:
            while time.monotonic() < deadline:
                self.check()
                try:
                    client.queue_names()
                except CallError:
                    time.sleep(0.02)
                else:
                    return
        raise self._failed(f"gave no answer in {START_SECONDS:g} s")

    def process(self) -> psutil.Process:
        """Return the process that serves the calls."""
        [found] = [process for process in self._family() if process.cmdline()[:1] == ["pinlater-server"]]
        return found

    def client(self, *, retries: int = 3) -> Client:
        """Return a client with a timeout that is long enough for large calls."""
        return Client(str(self.address), timeout=60.0, retries=retries)

    def connection(self) -> Connection:
        """Return a connection, for calls in quick succession."""
        return Connection(self.address)

    def create_queue(self, name: str) -> str:
        """Create a queue; return its name."""
        with self.client() as client:
            client.create_queue(name)
        return name


class Worker(_Program):
    """``pinlater-worker`` with the jobs of this package."""

    def __init__(self, folder: Path, server: Server, *, processes: int, burst: bool, lease_seconds: int | None) -> None:
        arguments = ["benchmarks.jobs", "--server", str(server.address), "--processes", str(processes)]
        if lease_seconds is not None:
            arguments += ["--lease", str(lease_seconds)]
        super().__init__("pinlater.worker.program", arguments + ["--burst"] * burst, folder / "worker.log")

    def job_processes(self) -> list[psutil.Process]:
        """Return the processes that run jobs."""
        return [process for process in self._family() if process.cmdline()[:1] == ["pinlater-worker: jobs"]]

    def finish(self, timeout_seconds: float) -> None:
        """Wait until a ``--burst`` worker has found nothing more to do."""
        try:
            status = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise self._failed(f"was not done after {timeout_seconds:g} s") from None
        if status != 0:
            raise self._failed(f"ended with status {status}")


class Echo(_Program):
    """A server that sends back what it receives."""

    def __init__(self, folder: Path) -> None:
        [self._port] = free_ports(1)
        super().__init__("benchmarks.echo", [str(self._port)], folder / "echo.log")

    def connect(self) -> socket.socket:
        """Return a connection, as soon as the server accepts one."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            self.check()
            try:
                connection = socket.create_connection(("127.0.0.1", self._port))
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection


class Viewers(_Program):
    """Viewers of a server's dashboard, spread over the pages in turns.

    Args:
        folder: folder of the log.
        server: server of the dashboard.
        paths: paths of the pages.
        count: number of viewers.
        apart: whether they use only processor time that nobody else wants, as if they were on other machines.
    """

    def __init__(self, folder: Path, server: Server, paths: Sequence[str], count: int, *, apart: bool) -> None:
        kind = "apart" if apart else "sharing"
        super().__init__(
            "benchmarks.viewers", [kind, str(server.admin_port), str(count), *paths], folder / "viewers.log"
        )

    def pages(self) -> int:
        """Return how many pages they have read, up to about half a second ago."""
        return int((self._log.read_text().split() or ["0"])[-1])


class Reporters(_Program):
    """Simulated workers that report for queues to a server, but run nothing."""

    def __init__(self, folder: Path, server: Server, queues: Sequence[str]) -> None:
        super().__init__("benchmarks.reporters", [str(server.address), *queues], folder / "reporters.log")


def environment() -> dict[str, str]:
    """Return our environment without PinLater's variables, and with this checkout to import from."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
    path = [str(_CHECKOUT), str(_CHECKOUT / "supervisor"), *filter(None, [ours.get("PYTHONPATH")])]
    return ours | {"PYTHONPATH": os.pathsep.join(path)}


class OutboxRelay(_Program):
    """``pinlater outbox-relay`` for a database.

    Args:
        url: URL of the database.
        address: address of the server.
        log: file for its output.
    """

    def __init__(self, url: str, address: Address, log: Path) -> None:
        super().__init__("pinlater.cli", ["outbox-relay", url, "--server", str(address)], log)
