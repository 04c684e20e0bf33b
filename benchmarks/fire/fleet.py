"""The fleet under faults: shards of a store, servers that each reach them through separate proxies, and clients."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import psutil

from benchmarks.database import Database
from benchmarks.fire.cuttable import CuttableWay, CuttableWays
from benchmarks.fire.jobs import JOURNALS, LEASE_SECONDS
from benchmarks.programs import Server, environment
from benchmarks.stores import Stores, make_stores

STOP_SECONDS = 30.0


def family_of(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []


def send_to_family(pid: int, number: int) -> None:
    """Send a signal to a process and its descendants."""
    for process in family_of(pid):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


class ServerOnFire:
    """A server that reaches the shards through its own proxies.

    Args:
        name: name of its folder.
        folder: parent of its folder.
        settings: settings of its store; the file of shards is replaced by one with the proxies.
        ways: creates the proxies.
    """

    def __init__(self, name: str, folder: Path, settings: Sequence[str], ways: CuttableWays) -> None:
        self.name = name
        self.ways: list[CuttableWay] = []
        self._folder = folder / name
        self._folder.mkdir()
        self._settings = list(self._with_ways(settings, ways))
        self._ports: tuple[int, int] | None = None
        self.start()

    def _with_ways(self, settings: Sequence[str], ways: CuttableWays) -> Iterator[str]:
        for setting in settings:
            key, _, value = setting.partition("=")
            if key == "BACKEND_CONFIG":
                file = self._folder / "shards.json"
                file.write_text(json.dumps(self._through(json.loads(Path(value).read_text()), ways)))
                yield f"{key}={file}"
            else:
                yield setting

    def _through(self, config: Any, ways: CuttableWays) -> Any:
        """Return a configuration whose ports are those of new proxies."""
        if isinstance(config, list):
            return [self._through(part, ways) for part in config]
        if not isinstance(config, dict):
            return config
        changed = {key: self._through(part, ways) for key, part in config.items()}
        if "port" in changed:
            self.ways.append(ways.add(changed["port"]))
            changed["port"] = self.ways[-1].port
        return changed

    def start(self) -> None:
        """Start the server, always on the same port, and wait until it answers."""
        self._server = Server(self._folder, self._settings, ports=self._ports)
        self._server.__enter__()
        self._ports = self._server.address.port, self._server.admin_port

    @property
    def address(self) -> str:
        """Address of the server."""
        return str(self._server.address)

    def kill(self) -> None:
        """Kill it and all its processes."""
        send_to_family(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def freeze(self) -> None:
        """Freeze it and all its processes."""
        send_to_family(self._server.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        send_to_family(self._server.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop it gracefully."""
        self.thaw()
        self._server.__exit__()


class Member:
    """A worker or client process of the fleet, which may be replaced by another one.

    Args:
        command: module and arguments that start it.
        log: file for its output.
        more_environment: environment variables besides those of all programs.
    """

    def __init__(self, command: Sequence[str], log: Path, more_environment: dict[str, str]) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment() | more_environment,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def freeze(self) -> None:
        """Freeze it and all its processes."""
        send_to_family(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        send_to_family(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and all its processes."""
        send_to_family(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_a_child(self, chance: float) -> None:
        """Kill one of its descendants; it starts a new one."""
        children = family_of(self._process.pid)[1:]
        if children:
            with suppress(psutil.NoSuchProcess):
                children[int(chance * len(children))].kill()

    def stop(self) -> None:
        """Stop it gracefully."""
        self.thaw()
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


class FleetOnFire:
    """The whole fleet. Use as a context manager.

    Args:
        folder: an empty folder.
        store: kind of the store.
        seed: seed of everything random.
        servers: number of servers.
        shards: number of shards.
        queues: which ones have jobs, as in ``QUEUE_SETS``.
        pace: rate of the producers, as a multiple of the usual one.
        jobs: number of jobs after which the producers end; 0 for no limit.

    Attributes:
        has_only_server: whether the store has one server, with all of its data.
    """

    def __init__(
        self, folder: Path, store: str, seed: int, *, servers: int, shards: int, queues: str, pace: float, jobs: int
    ) -> None:
        self._folder = folder
        self._seed = seed
        self._queues = queues
        self._produce = ["--pace", str(pace), "--jobs", str(jobs)]
        self._counts = {"servers": servers, "shards": shards}
        self._store = store
        self._started = 0
        self._stack = ExitStack()
        self.journals = folder / "journals"
        self.server_file = folder / "servers"
        self.servers: list[ServerOnFire] = []
        self.consumers: list[Member] = []
        self.workers: list[Member] = []
        self.databases: Sequence[Database] = ()
        self.has_only_server = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in (*self.consumers, *self.workers, *self.servers):
            with suppress(psutil.Error, OSError):
                member.kill()
        self._stack.close()

    def _start(self) -> None:
        self.journals.mkdir()
        stores: Stores = make_stores(self._store)
        self._stack.callback(stores.close)
        home = self._folder / "store"
        home.mkdir()
        # Each Redis is one shard, and syncs everything before it confirms. Shards of MySQL are databases of one server.
        self._settings = stores.settings(home, shards=self._counts["shards"], is_safe=self._store == "redis")
        self.databases = stores.databases
        self.has_only_server = not stores.is_shared
        self._ways = self._stack.enter_context(CuttableWays())
        for _ in range(1 if self.has_only_server else self._counts["servers"]):
            self.add_server()

    def add_server(self) -> None:
        """Start another server, and tell the clients."""
        self.servers.append(ServerOnFire(self._name("server"), self._folder, self._settings, self._ways))
        self._tell_clients()

    def remove_server(self) -> ServerOnFire:
        """Take the oldest server from the clients' list, and return it."""
        server = self.servers.pop(0)
        self._tell_clients()
        return server

    def _tell_clients(self) -> None:
        written = self.server_file.with_suffix(".new")
        written.write_text("".join(f"{server.address}\n" for server in self.servers))
        written.replace(self.server_file)

    def _name(self, kind: str) -> str:
        self._started += 1
        return f"{kind}{self._started}"

    def start_producers(self) -> Member:
        """Start the process with all producers."""
        return self._member("produce", self._produce)

    def add_consumers(self) -> None:
        """Start a process of consumers."""
        self.consumers.append(self._member("consume", []))

    def _member(self, role: str, more: list[str]) -> Member:
        name = self._name(role)
        options = ["--name", name, "--servers", str(self.server_file), "--journals", str(self.journals)]
        command = ["benchmarks.fire.load", role, *options, "--seed", str(self._seed), "--queues", self._queues, *more]
        return Member(command, self._folder / f"{name}.log", {})

    def add_worker(self) -> None:
        """Start a ``pinlater-worker``."""
        options = ["--server", f"file:{self.server_file}", "--processes", "2", "--lease", str(LEASE_SECONDS)]
        command = ["pinlater.worker.program", "benchmarks.fire.jobs", *options]
        log = self._folder / f"{self._name('worker')}.log"
        self.workers.append(Member(command, log, {JOURNALS: str(self.journals), "PYTHONWARNINGS": "default"}))
