"""A broker on a real store."""

import asyncio
import itertools
import time
from pathlib import Path

from pinlater.model.jobs import NewJob
from pinlater.server.backends.records import Claim, CommitStats
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits


class Bench:
    """A broker on a real store, with what its transactions carried."""

    def __init__(self, data_dir: Path) -> None:
        self.commits: list[CommitStats] = []
        self.limits = RateLimits()
        self.backend = SqliteStore(data_dir, StoreOptions(3, now_ms=self.now_ms, on_commit=self.commits.append))
        self.broker = Broker(self.backend, self.limits)

    @staticmethod
    def now_ms() -> int:
        return int(time.time() * 1000)

    def order(self, *queues: str, limit: int = 1, wait: float = 10.0, name: str = "a") -> DequeueRequest:
        numbers = itertools.count(1)
        return DequeueRequest(
            queues or ("q",), limit, 1_000_000, lambda: Claim(f"h:1:1:{name}:{next(numbers)}", 30_000), wait
        )

    async def parked(self, *queues: str, caller: Caller | None = None, **order: object) -> asyncio.Task:
        """Return a dequeue that waits by now."""
        task = asyncio.create_task(self.broker.dequeue(self.order(*queues, **order), caller or Caller()))
        waiting = self.broker.parked_dequeues
        while self.broker.parked_dequeues == waiting:
            await asyncio.sleep(0)
        return task


def job(body: bytes = b"x", delay_ms: int | None = None) -> NewJob:
    return NewJob(body, 1, None if delay_ms is None else Bench.now_ms() + delay_ms, 2, "")


def bodies(dequeued) -> list[bytes]:
    return [claimed.body for jobs in dequeued.jobs.values() for claimed in jobs]
