"""Where jobs report that they have started: a datagram socket, since that costs them next to nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.jobs import STARTED
from benchmarks.programs import ProgramFailed, Worker

PATIENCE_SECONDS = 30.0


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Open the socket at a path that jobs know."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(1.0)
        yield listener


def next_start(listener: socket.socket, worker: Worker) -> tuple[int, float]:
    """Wait for a job's start; return the number that it reports, and the time on the monotonic clock."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        worker.check()
        try:
            number, started = STARTED.unpack(listener.recv(STARTED.size))
        except TimeoutError:
            continue
        return number, started
    raise ProgramFailed(f"the worker did not run a job in {PATIENCE_SECONDS:g} s")
