"""Producers that continue whatever the answers are, and record what was confirmed to them."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Self

from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from pinlater.client import NewJob
from pinlater.errors import NoHealthyShards, ShardConnectionFailed
from pinlater.jobs.body_codec import encode_body

THREADS = 4
PAUSE_SECONDS = 0.02

AWAY = (NoHealthyShards, ShardConnectionFailed)
"""Errors that a client may get while a database is down."""


class Producers:
    """Threads that enqueue without end.

    Args:
        server: server that they call.
        batch_size: number of jobs of a call.

    Attributes:
        confirmed: descriptors of confirmed jobs.
        refusals: number of calls that were answered with one of ``AWAY``.
        longest_seconds: duration of the longest call, whatever its outcome.
    """

    def __init__(self, server: Server, batch_size: int) -> None:
        self._server = server
        self._batch_size = batch_size
        self._end = threading.Event()
        self._fault: BaseException | None = None
        self._numbers = count()
        self._threads = [threading.Thread(target=self._run) for _ in range(THREADS)]
        self.confirmed: list[str] = []
        self.refusals = 0
        self.longest_seconds = 0.0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._fault is not None:
            raise ProgramFailed(f"a producer was told what nobody expects: {self._fault!r}")

    def _run(self) -> None:
        try:
            with self._server.client(retries=0) as client:
                while not self._end.wait(PAUSE_SECONDS):
                    batch = [NewJob(encode_body(Nothing(number=next(self._numbers)))) for _ in range(self._batch_size)]
                    started = time.monotonic()
                    try:
                        self.confirmed += client.enqueue_jobs("nothing", batch)
                    except AWAY:
                        self.refusals += 1
                    self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)
        except BaseException as fault:  # noqa: BLE001 - ``__exit__`` reports it
            self._fault = fault
