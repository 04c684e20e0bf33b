"""A private Redis server of a test: on a free port, in a folder of its own; killed, stopped, started at will."""

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest
import redis

from benchmarks.programs import ProgramFailed
from benchmarks.redis_store import redis_program
from tests.support.ports import free_port

START_SECONDS = 30


def program() -> str:
    """Return the path of a Redis or Valkey server; skip the test if there is none, and fail it in CI."""
    try:
        return redis_program()
    except ProgramFailed as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{error}; CI needs one")
        pytest.skip(str(error))


class RedisService:
    """One server.

    Args:
        folder: for its files; made if it is not there.
        options: lines of its configuration, such as ``appendonly="yes"``; ``_`` stands for ``-``.
    """

    def __init__(self, folder: Path, **options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._folder = folder
        self._options = {"save": "", "bind": "127.0.0.1", "dir": str(folder), "port": str(self.port), **options}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self) -> redis.Redis:
        """Return a client of the driver itself."""
        return redis.Redis(port=self.port, socket_timeout=30)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        arguments = [
            part for key, value in self._options.items() for part in (f"--{key.replace('_', '-')}", *value.split(" "))
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([program(), *arguments], stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                pytest.fail(f"{program()} did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return redis.Redis(port=self.port, socket_timeout=1).ping()
        except redis.RedisError:
            return False

    def kill(self) -> None:
        """End it without notice."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kill it, and start it on what it left behind."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Let it stand still: it takes connections, and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Undo ``stop``."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self._process.poll() is None:
            self.kill()


def shard_file(folder: Path, services: Sequence[RedisService], *, dequeue_only: Sequence[bool] = ()) -> Path:
    """Write the file of a store whose shards are these; each may be one that takes no new jobs."""
    file = folder / "shards.json"
    shards = [
        {"name": str(number), "shardConfig": {"master": {"host": "127.0.0.1", "port": service.port}}}
        for number, service in enumerate(services, 1)
    ]
    for shard, is_dequeue_only in zip(shards, dequeue_only, strict=False):
        shard["shardConfig"]["dequeueOnly"] = is_dequeue_only
    file.write_text(json.dumps({"shards": shards}))
    return file


@functools.cache
def shared_redis_service(_users):
    """Return the one for all tests of this process of such users, each of which empties it first."""
    folder = tempfile.mkdtemp(prefix="pinlater-redis-")
    service = RedisService(Path(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(service.close)
    return service
