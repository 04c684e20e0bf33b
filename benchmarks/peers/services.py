"""Private servers of the contestants, on free ports, each in its own folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.database import Database
from benchmarks.ports import free_ports
from benchmarks.programs import ProgramFailed, Server
from benchmarks.redis_store import start_redis
from benchmarks.stores import make_stores


class Service(NamedTuple):
    """A running server: the URL for its clients, and the ids of its main processes."""

    url: str
    pids: list[int]


class NotInstalled(Exception):
    """The program of a server is not on this machine."""


@contextmanager
def redis_server(folder: Path) -> Iterator[Service]:
    """Start a Redis whose append-only file is synced each second, as PinLater's in this comparison."""
    database, client, port = start_redis(_program("redis-server", "valkey-server"), folder)
    with client, _killed_at_end(database):
        yield Service(f"redis://127.0.0.1:{port}/0", [database.pid])


@contextmanager
def beanstalkd(folder: Path, *, is_synced: bool) -> Iterator[Service]:
    """Start a beanstalkd: with a log that is synced at each write, or, as by default, only in memory."""
    program = _program("beanstalkd")
    [port] = free_ports(1)
    log = ["-b", str(folder), "-f", "0"] if is_synced else []
    as_root = ["-u", "root"] if os.getuid() == 0 else []
    command = [program, "-l", "127.0.0.1", "-p", str(port), *log, *as_root]
    with _running(command, folder, lambda: _accepts(port)) as pid:
        yield Service(f"127.0.0.1:{port}", [pid])


@contextmanager
def postgres(folder: Path) -> Iterator[Service]:
    """Start a PostgreSQL with its defaults: each commit is synced."""
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    program, initdb = (shutil.which(name, path=path) for name in ("postgres", "initdb"))
    if program is None or initdb is None:
        raise NotInstalled("postgres")
    [port] = free_ports(1)
    user = "postgres" if os.getuid() == 0 else None  # it refuses to be root
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    with (folder / "initdb.log").open("wb") as log:
        made = [initdb, "--auth=trust", "--username=bench", "--pgdata", str(data)]
        subprocess.run(made, stdout=log, stderr=log, check=True, user=user, cwd=folder)
    command = [program, "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]
    command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *command] if user else command
    ready = [str(Path(program).with_name("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(port)]
    ready[0] = shutil.which("pg_isready", path=path) or ready[0]
    with _running(command, folder, lambda: subprocess.run(ready, check=False).returncode == 0) as pid:
        yield Service(f"postgresql://bench@127.0.0.1:{port}/postgres", [pid])


@contextmanager
def pinlater(folder: Path, *, store: str) -> Iterator[Service]:
    """Start a PinLater server with default settings on a store of the given kind."""
    with closing(make_stores(store)) as stores:
        try:
            settings = stores.settings(folder)
        except ProgramFailed as error:
            raise NotInstalled(store) from error
        with Server(folder, settings) as server:
            server.create_queue("peers")
            yield Service(str(server.address), [server.pid, *(database.pid for database in stores.databases)])


@contextmanager
def _running(command: list[str], folder: Path, answers: Callable[[], bool]) -> Iterator[int]:
    server = Database(command, folder / "server.log", answers)
    with _killed_at_end(server):
        yield server.pid


@contextmanager
def _killed_at_end(server: Database) -> Iterator[None]:
    try:
        yield
    finally:
        server.kill()


def _program(*names: str) -> str:
    for name in names:
        if (program := shutil.which(name)) is not None:
            return program
    raise NotInstalled(" or ".join(names))


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
