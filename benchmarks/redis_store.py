"""Redis as a store to be measured: a private server for each store, with its log of writes synced each second."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import redis

from benchmarks.bare_redis import BareRedis
from benchmarks.finished import Finished
from benchmarks.programs import ProgramFailed, free_ports

START_SECONDS = 30.0

_OPTIONS = {"bind": "127.0.0.1", "appendonly": "yes", "appendfsync": "everysec", "save": ""}
_SUCCEEDED = "pinlater:{1:nothing}:*:S"


class RedisStores:
    """Servers, each in the folder of its store."""

    driver = "redis-py"
    is_shared = True

    def __init__(self) -> None:
        self._clients: dict[Path, redis.Redis] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def settings(self, folder: Path) -> list[str]:
        """Start a Redis; return what makes a server use it."""
        port = self._start(folder)
        shards = [{"name": "1", "shardConfig": {"master": {"host": "127.0.0.1", "port": port}}}]
        file = folder / "shards.json"
        file.write_text(json.dumps({"shards": shards}))
        return ["PINLATER_BACKEND=redis", f"BACKEND_CONFIG={file}"]

    def finished(self, folder: Path, since_ms: int) -> Finished:
        """Look into the set of jobs by the time of their success."""
        client = self._clients[folder]
        [key] = client.scan_iter(match=_SUCCEEDED, count=1000)
        count = client.zcount(key, since_ms, "+inf")
        [(_, first_ms)] = client.zrange(key, since_ms, "+inf", byscore=True, offset=0, num=1, withscores=True)
        [(_, last_ms)] = client.zrange(key, -1, -1, withscores=True)
        return Finished(first_ms, last_ms, count)

    def bare(self, folder: Path) -> BareRedis:
        """Start a Redis; return a bare loop on it."""
        self._start(folder)
        return BareRedis(self._clients[folder])

    def close(self) -> None:
        """End all servers."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, folder: Path) -> int:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise ProgramFailed("there is neither redis-server nor valkey-server here; install one")
        [port] = free_ports(1)
        options = {**_OPTIONS, "dir": str(folder), "port": str(port)}
        arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
        with (folder / "redis.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen([program, *arguments], stdout=log, stderr=log, start_new_session=True)
            )
        self._clients[folder] = redis.Redis(port=port)
        self._await_answer(self._clients[folder], folder / "redis.log")
        return port

    def _await_answer(self, client: redis.Redis, log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise ProgramFailed(f"redis-server did not start: {log.read_text()[-500:]}") from None
                time.sleep(0.02)
            else:
                return
