"""MariaDB as a store to be measured: a private server for each store, which syncs at every commit."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import asyncmy

from benchmarks.bare_mysql import BareMysql
from benchmarks.finished import Finished
from benchmarks.programs import ProgramFailed, free_ports

START_SECONDS = 60.0

_USER, _PASSWORD = "pinlater", "bench"
_OPTIONS = (
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--performance-schema=OFF",
)
_WHEN_DONE = """SELECT MIN(moment), MAX(moment), COUNT(*) FROM pinlater_1.jobs FORCE INDEX (jobs_by_moment)
                WHERE state = 2 AND moment >= %s"""


class MysqlStores:
    """Servers, each in the folder of its store."""

    driver = "asyncmy"
    is_shared = True

    def __init__(self) -> None:
        self._ports: dict[Path, int] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def settings(self, folder: Path) -> list[str]:
        """Start a MariaDB; return what makes a server use it."""
        port = self._start(folder)
        entry = {"master": {"host": "127.0.0.1", "port": port}, "user": _USER, "passwd": _PASSWORD}
        file = folder / "mysql.local.json"
        file.write_text(json.dumps({"shard1": entry}))
        return ["PINLATER_BACKEND=mysql", f"BACKEND_CONFIG={file}"]

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Ask the table."""
        return asyncio.run(_finished(self._ports[folder], since_ms))

    def bare(self, folder: Path) -> BareMysql:
        """Start a MariaDB; return a bare loop on it."""
        return BareMysql(self._start(folder), _USER, _PASSWORD)

    def close(self) -> None:
        """End all servers."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, folder: Path) -> int:
        program, install = (shutil.which(name) or f"/usr/sbin/{name}" for name in ("mariadbd", "mariadb-install-db"))
        if not Path(program).exists() or not Path(install).exists():
            raise ProgramFailed("there is no mariadbd here; install MariaDB's server")
        [port] = free_ports(1)
        as_root = ["--user=root"] if os.getuid() == 0 else []
        data, start = f"--datadir={folder / 'mysql'}", folder / "start.sql"
        start.write_text(f"CREATE USER {_USER}@'%' IDENTIFIED BY '{_PASSWORD}';\nGRANT ALL ON *.* TO {_USER}@'%';\n")
        with (folder / "mariadb.log").open("wb") as log:
            made = [install, "--no-defaults", *as_root, data, "--skip-test-db"]
            subprocess.run(made, stdout=log, stderr=log, check=True)
            arguments = [f"--port={port}", "--bind-address=127.0.0.1", "--socket=socket"]
            arguments += [f"--init-file={start}", f"--pid-file={folder / 'pid'}", *_OPTIONS]
            self._processes.append(
                subprocess.Popen(
                    [program, "--no-defaults", *as_root, data, *arguments],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        _await_answer(port, folder / "mariadb.log")
        self._ports[folder] = port
        return port


async def _finished(port: int, since_ms: int) -> Finished:
    connection = await asyncmy.connect(host="127.0.0.1", port=port, user=_USER, password=_PASSWORD)
    async with connection.cursor() as cursor:
        await cursor.execute(_WHEN_DONE, (since_ms,))
        row: Any = await cursor.fetchone()
    connection.close()
    return Finished(*row)


def _await_answer(port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
                if peer.recv(1):
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise ProgramFailed(f"mariadbd did not start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)
