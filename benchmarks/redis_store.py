"""Redis as a store to measure: a private server for each store, with its append-only file synced each second."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import redis

from benchmarks.bare_redis import BareRedis
from benchmarks.database import Database
from benchmarks.finished import Finished
from benchmarks.ports import free_ports
from benchmarks.programs import ProgramFailed

_NAMED = "PINLATER_TEST_REDIS_SERVER"
_OPTIONS = {"bind": "127.0.0.1", "appendonly": "yes", "save": ""}
_SUCCEEDED = "pinlater:{1:nothing}:*:S"


class StartedRedis(NamedTuple):
    """A started Redis, and a client of it."""

    database: Database
    client: redis.Redis
    port: int


class RedisStores:
    """Starts Redis servers, each in the folder of its store."""

    driver = "redis-py"
    is_shared = True

    def __init__(self) -> None:
        self._clients: dict[Path, redis.Redis] = {}
        self.databases: list[Database] = []

    def settings(self, folder: Path, *, shards: int = 1, is_safe: bool = False) -> list[str]:
        """Start a Redis, or one for each shard of a safe store; return the settings that make a server use them."""
        sync = "always" if is_safe else "everysec"
        folders = [folder, *(folder / f"shard{number}" for number in range(2, shards + 1) if is_safe)]
        ports = [self._start(one, sync) for one in folders]
        masters = [{"host": "127.0.0.1", "port": ports[number % len(ports)]} for number in range(shards)]
        named = [{"name": str(number), "shardConfig": {"master": one}} for number, one in enumerate(masters, 1)]
        file = folder / "shards.json"
        file.write_text(json.dumps({"shards": named}))
        return ["PINLATER_BACKEND=redis", f"BACKEND_CONFIG={file}"]

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Query the sorted set of succeeded jobs."""
        client = self._clients[folder]
        [key] = {*client.scan_iter(match=_SUCCEEDED, count=1000)}  # which may find a key twice
        count = client.zcount(key, since_ms, "+inf")
        [(_, first_ms)] = client.zrange(key, since_ms, "+inf", byscore=True, offset=0, num=1, withscores=True)
        [(_, last_ms)] = client.zrange(key, -1, -1, withscores=True)
        return Finished(first_ms, last_ms, count)

    def statements(self, folder: Path) -> int:
        """Return the number of commands so far, including those of scripts, without this one."""
        return int(self._clients[folder].info("stats")["total_commands_processed"])

    def work(self, folder: Path) -> dict[str, int]:
        """Return the number of commands so far, including those of scripts, and the microseconds of scripts."""
        commands = self._clients[folder].info("commandstats")
        scripts = {"cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall", "cmdstat_exec"}
        outer = sum(each["usec"] for name, each in commands.items() if name in scripts)
        return {"statements": self.statements(folder), "script µs": int(outer)}

    def multiply(self, folder: Path, first: int, jobs: int) -> int:  # noqa: ARG002 - see below
        """Copy nothing: a job is in several keys, which only the scripts keep consistent."""
        return first

    def bare(self, folder: Path) -> BareRedis:
        """Start a Redis; return a bare store on it."""
        self._start(folder)
        return BareRedis(self._clients[folder])

    def close(self) -> None:
        """Kill all servers."""
        for database in self.databases:
            database.kill()

    def _start(self, folder: Path, sync: str = "everysec") -> int:
        program = redis_program()
        folder.mkdir(exist_ok=True)
        started = start_redis(program, folder, sync)
        self._clients[folder] = started.client
        self.databases.append(started.database)
        return started.port


def redis_program() -> str:
    """Return the path of the server that benchmarks and tests start: what ``PINLATER_TEST_REDIS_SERVER`` names, if set.

    Raises:
        ProgramFailed: there is none.
    """
    path = os.environ.get(_NAMED) or shutil.which("redis-server") or shutil.which("valkey-server")
    if path is None:
        raise ProgramFailed(
            "there is neither redis-server nor valkey-server here (Debian: apt-get install redis-server)"
        )
    return path


def start_redis(program: str, folder: Path, sync: str = "everysec") -> StartedRedis:
    """Start a Redis that keeps its files in the folder; ``sync`` is its ``appendfsync``."""
    [port] = free_ports(1)
    options = {**_OPTIONS, "appendfsync": sync, "dir": str(folder), "port": str(port)}
    arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
    client = redis.Redis(port=port)
    return StartedRedis(Database([program, *arguments], folder / "redis.log", lambda: _answers(client)), client, port)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
