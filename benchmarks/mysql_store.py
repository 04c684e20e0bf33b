"""MariaDB or MySQL as a store to measure: a private server for each store, which syncs at every commit."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncmy

from benchmarks.bare_mysql import BareMysql
from benchmarks.database import Database
from benchmarks.finished import Finished
from benchmarks.mysql_program import mysql_program, options_of_folders
from benchmarks.ports import free_ports

_USER, _PASSWORD = "pinlater", "bench"
_OPTIONS = (
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=1G",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--performance-schema=OFF",
)
_MARIADB_OPTIONS = ("--innodb-log-file-size=512M",)
_MYSQL_OPTIONS = ("--innodb-redo-log-capacity=512M", "--mysqlx=OFF", "--secure-file-priv=NULL")
_WHEN_DONE = """SELECT MIN(moment), MAX(moment), COUNT(*) FROM pinlater_1.jobs FORCE INDEX (jobs_by_moment)
                WHERE state = 2 AND moment >= %s"""
_DIRTY_PAGES = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'"
_RESERVE = "UPDATE pinlater_1.settings SET value = LAST_INSERT_ID(value + %s) WHERE name = 'next_job_id'"


class MysqlStores:
    """Starts servers of MariaDB or MySQL, each in the folder of its store."""

    driver = "asyncmy"
    is_shared = True

    def __init__(self) -> None:
        self._ports: dict[Path, int] = {}
        self._fresh: Path | None = None
        self.databases: list[Database] = []

    def settings(self, folder: Path, *, shards: int = 1, is_safe: bool = False) -> list[str]:
        """Start a server, or one for each shard of a safe store; return the settings that make a server use them."""
        folders = [folder, *(folder / f"shard{number}" for number in range(2, shards + 1) if is_safe)]
        ports = [self._start(one) for one in folders]
        masters = [{"host": "127.0.0.1", "port": ports[number % len(ports)]} for number in range(shards)]
        named = {
            f"shard{number}": {"master": master, "user": _USER, "passwd": _PASSWORD}
            for number, master in enumerate(masters, 1)
        }
        file = folder / "mysql.local.json"
        file.write_text(json.dumps(named))
        return ["PINLATER_BACKEND=mysql", f"BACKEND_CONFIG={file}"]

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Query the table."""
        return asyncio.run(_finished(self._ports[folder], since_ms))

    def statements(self, folder: Path) -> int:
        """Return the number of statements of all clients so far."""
        return asyncio.run(_statements(self._ports[folder]))

    def work(self, folder: Path) -> dict[str, int]:
        """Return the statements of all clients so far, and how many rows of indexes and tables they have read."""
        return dict(zip(("statements", "rows"), asyncio.run(_work(self._ports[folder])), strict=True))

    def multiply(self, folder: Path, first: int, jobs: int) -> int:
        """Copy the jobs, under ids reserved as a server does; wait until everything is written to disk."""
        port = self._ports[folder]
        asyncio.run(_multiply(port, first, jobs))
        asyncio.run(_rows(port, "SET GLOBAL innodb_max_dirty_pages_pct = 0"))
        while int(asyncio.run(_row(port, _DIRTY_PAGES))[1]):
            time.sleep(0.1)
        asyncio.run(_rows(port, "SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT"))
        return jobs

    def bare(self, folder: Path) -> BareMysql:
        """Start a server; return a bare store on it."""
        return BareMysql(self._start(folder), _USER, _PASSWORD)

    def close(self) -> None:
        """Kill all servers."""
        for database in self.databases:
            database.kill()

    def _start(self, folder: Path) -> int:
        program = mysql_program()
        folder.mkdir(exist_ok=True)
        [port] = free_ports(1)
        start = folder / "start.sql"
        start.write_text(
            f"CREATE USER IF NOT EXISTS {_USER}@'%' IDENTIFIED BY '{_PASSWORD}';\nGRANT ALL ON *.* TO {_USER}@'%';\n"
        )
        temporary = folder / "mysql-tmp"
        temporary.mkdir()
        if self._fresh is None:
            program.install(folder / "fresh", temporary)
            self._fresh = folder / "fresh"
        shutil.copytree(self._fresh, folder / "mysql")
        command = [program.path, "--no-defaults", *options_of_folders(folder / "mysql", temporary)]
        command += [f"--port={port}", "--bind-address=127.0.0.1", "--socket=socket", f"--init-file={start}"]
        command += [f"--pid-file={folder / 'pid'}", *_OPTIONS]
        command += _MYSQL_OPTIONS if program.is_mysql else _MARIADB_OPTIONS
        self.databases.append(Database(command, folder / "mysql.log", lambda: _answers(port)))
        self._ports[folder] = port
        return port


async def _finished(port: int, since_ms: int) -> Finished:
    return Finished(*await _row(port, _WHEN_DONE, (since_ms,)))


async def _statements(port: int) -> int:
    return int((await _row(port, "SHOW GLOBAL STATUS LIKE 'Questions'"))[1])


async def _work(port: int) -> tuple[int, int]:
    rows = await _rows(
        port, "SHOW GLOBAL STATUS WHERE Variable_name = 'Questions' OR Variable_name LIKE 'Handler_read%'"
    )
    counts = {name: int(count) for name, count in rows}
    return counts.pop("Questions"), sum(counts.values())


async def _multiply(port: int, first: int, jobs: int) -> None:
    columns = [row[0] for row in await _rows(port, "SHOW COLUMNS FROM pinlater_1.jobs")]
    others = ", ".join(column for column in columns if column != "id")
    lowest, highest = await _row(port, "SELECT MIN(id), MAX(id) FROM pinlater_1.jobs")
    span = highest + 1 - lowest
    async with _cursor(port) as cursor:
        await cursor.execute(_RESERVE, ((jobs - 1) // first * span,))
        next_id = cursor.lastrowid
        for there in range(first, jobs, first):
            next_id -= span
            await cursor.execute(
                f"INSERT INTO pinlater_1.jobs (id, {others}) SELECT id + %s, {others} FROM pinlater_1.jobs"
                " WHERE id <= %s ORDER BY id LIMIT %s",
                (next_id - lowest, highest, min(first, jobs - there)),
            )


async def _row(port: int, statement: str, parameters: tuple[Any, ...] | None = None) -> Any:
    return (await _rows(port, statement, parameters))[0]


async def _rows(port: int, statement: str, parameters: tuple[Any, ...] | None = None) -> list[Any]:
    async with _cursor(port) as cursor:
        await cursor.execute(statement, parameters)
        rows: list[Any] = await cursor.fetchall()
    return rows


@asynccontextmanager
async def _cursor(port: int) -> AsyncIterator[Any]:
    connection = await asyncmy.connect(host="127.0.0.1", port=port, user=_USER, password=_PASSWORD, autocommit=True)
    async with connection.cursor() as cursor:
        yield cursor
    connection.close()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
            return bool(peer.recv(1))
    except OSError:
        return False
