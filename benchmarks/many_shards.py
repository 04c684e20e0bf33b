"""One job and one poll on a store of many shards, beside the same on one shard: how long, and how many statements."""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks.consumer import send_dequeue
from benchmarks.figures import Figure, percentile
from benchmarks.idle_fleet import waiting
from benchmarks.jobs import Tell
from benchmarks.latency import PARK_SECONDS, to_parked_dequeue
from benchmarks.listener import PATIENCE_SECONDS
from benchmarks.programs import Server
from benchmarks.setting import Setting
from pinlater.jobs.body_codec import encode_body

SHARDS = (1, 12)
QUEUES = 100
JOBS = 300
POLLS = 300
PAUSE_SECONDS = 0.02
SETTLE_SECONDS = 5.0
"""Until each server has found the queues empty, and the others are known to it."""


def measure(setting: Setting) -> list[Figure]:
    """Measure on two servers, with the job stored at the one where its consumer waits, and at the other."""
    if not setting.stores.is_shared:
        return []
    return [figure for shards in SHARDS for figure in _measure_on(setting, shards)]


def _measure_on(setting: Setting, shards: int) -> list[Figure]:
    queues = [f"idle{number}" for number in range(max(setting.amount(QUEUES), 2))]
    figures = []
    with ExitStack() as stack:
        servers = setting.servers(2, f"shards{shards}", shards=shards)
        here, there = (stack.enter_context(server) for server in servers)
        for queue in ("jobs", "polled", *queues):
            here.create_queue(queue)
        for server in (here, there):
            stack.enter_context(waiting(server, queues))
        time.sleep(max(SETTLE_SECONDS * setting.scale, 0.2))
        store = Store(setting, shards)
        for producer, title in ((here, "the same server"), (there, "another server")):
            figures += _jobs(store, producer, here, title)
        figures.append(_polls(store, here))
    return figures


class Store:
    """The store of the servers: counts statements, without those that it executes while nothing happens."""

    def __init__(self, setting: Setting, shards: int) -> None:
        self.setting, self.name, self.title = setting, f"shards{shards}", f"{shards} shards"
        self._idle = 0.0
        before, started = self.count()
        time.sleep(max(SETTLE_SECONDS * setting.scale, 0.2))
        self._idle = self.since((before, started)) / (time.perf_counter() - started)

    def count(self) -> tuple[int, float]:
        """Return how many statements were executed until now, and when that is."""
        return self.setting.statements(self.name), time.perf_counter()

    def since(self, before: tuple[int, float]) -> float:
        """Return how many were executed since then."""
        statements, at = self.count()
        return statements - before[0] - self._idle * (at - before[1])


def _jobs(store: Store, producer: Server, consumer: Server, title: str) -> list[Figure]:
    body = encode_body(Tell(number=1, listener="/"))
    ms, jobs = [], store.setting.amount(JOBS)
    with producer.connection() as storing, consumer.connection() as taking:
        before = store.count()
        for _ in range(jobs):
            time.sleep(PAUSE_SECONDS - PARK_SECONDS)
            ms.append(to_parked_dequeue(storing, taking, "jobs", body) * 1000)
        spent = store.since(before)
    key = f"{store.name}_{'here' if producer is consumer else 'there'}"
    title = f"{store.title}, job stored at {title}"
    return [
        *(Figure(f"{key}_p{percent}", f"{title}, p{percent}", "ms", [percentile(ms, percent)]) for percent in (50, 99)),
        Figure(f"{key}_statements", "  statements: enqueue, dequeue, ack, and a dequeue in vain", "", [spent / jobs]),
    ]


def _polls(store: Store, server: Server) -> Figure:
    polls = store.setting.amount(POLLS)
    with server.connection() as client:
        before = store.count()
        for _ in range(polls):
            send_dequeue(client, "polled", 1)
            client.receive(PATIENCE_SECONDS)
            time.sleep(PAUSE_SECONDS)
        spent = store.since(before)
    return Figure(f"{store.name}_poll_statements", f"{store.title}: statements a poll in vain", "", [spent / polls])
