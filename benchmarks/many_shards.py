"""One job and one poll on a store of many shards, of which the queue uses all or one, compared with one shard.

It measures how long they take, and how many statements they need.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure, percentile
from benchmarks.idle_fleet import waiting
from benchmarks.jobs import Tell
from benchmarks.latency import PARK_SECONDS, to_parked_dequeue
from benchmarks.listener import PATIENCE_SECONDS
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.client import NewJob
from pinlater.jobs.body_codec import encode_body
from pinlater.protocol.messages import PinLaterJobAckInfo

QUEUES = 100
JOBS = 300
BATCHES = 50
BATCH_SIZE = 10
POLLS = 300
PAUSE_SECONDS = 0.02
SETTLE_SECONDS = 5.0
"""How long until each server has found the queues empty, and knows the other servers."""


class _Case(NamedTuple):
    """How many shards the store has, and how many of them the queues use; 0: all."""

    shards: int
    used: int = 0

    @property
    def name(self) -> str:
        """The name of the store."""
        return f"shards{self.shards}" + (f"_used{self.used}" if self.used else "")

    @property
    def title(self) -> str:
        """The name of the store in the table."""
        return f"{self.shards} shards" + (f", {self.used} used" if self.used else "")


_CASES = (_Case(1), _Case(12), _Case(12, 1))


def measure(setting: Setting) -> list[Figure]:
    """Measure on two servers, with the job stored at the one where its consumer waits, and at the other."""
    if not setting.stores.is_shared:
        return []
    return [figure for case in _CASES for figure in _measure_on(setting, case)]


def _measure_on(setting: Setting, case: _Case) -> list[Figure]:
    queues = [f"idle{number}" for number in range(max(setting.amount(QUEUES), 2))]
    figures = []
    with ExitStack() as stack:
        servers = setting.servers(2, case.name, shards=case.shards)
        here, there = (stack.enter_context(server) for server in servers)
        for queue in ("jobs", "batched", "polled", *queues):
            here.create_queue(queue)
        with here.client() as client:
            for queue in ("jobs", "batched", "polled"):
                client.change_queue(queue, shards=case.used)
        for server in (here, there):
            stack.enter_context(waiting(server, queues))
        time.sleep(max(SETTLE_SECONDS * setting.scale, 0.2))
        store = Store(setting, case)
        for producer, title in ((here, "the same server"), (there, "another server")):
            figures += _jobs(store, producer, here, title)
        figures += [_batches(store, here), _polls(store, here)]
    return figures


class Store:
    """Counts the statements of a store, minus those that it executes while idle."""

    def __init__(self, setting: Setting, case: _Case) -> None:
        self.setting, self.name, self.title = setting, case.name, case.title
        self._idle = 0.0
        before, started = self.count()
        time.sleep(max(SETTLE_SECONDS * setting.scale, 0.2))
        self._idle = self.since((before, started)) / (time.perf_counter() - started)

    def count(self) -> tuple[int, float]:
        """Return how many statements were executed so far, and the current time."""
        return self.setting.statements(self.name), time.perf_counter()

    def since(self, before: tuple[int, float]) -> float:
        """Return how many statements were executed since then, minus those of an idle store."""
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


def _batches(store: Store, server: Server) -> Figure:
    """Measure jobs that are enqueued one by one, and are claimed and acknowledged in batches."""
    acks: Sequence[PinLaterJobAckInfo] = ()
    batches = store.setting.amount(BATCHES)
    with server.client() as client, server.connection() as taking:
        before = store.count()
        for _ in range(batches):
            for _ in range(BATCH_SIZE):
                client.enqueue_jobs("batched", [NewJob(b"{}")])
            send_dequeue(taking, "batched", BATCH_SIZE, acks)
            acks = acks_of(taking.receive(PATIENCE_SECONDS))
            if len(acks) != BATCH_SIZE:
                raise ProgramFailed(f"{BATCH_SIZE} jobs were enqueued, but {len(acks)} were handed out")
        spent = store.since(before)
    title = f"{store.title}: statements of a job, taken and acknowledged {BATCH_SIZE} at once"
    return Figure(f"{store.name}_batch_statements", title, "", [spent / batches / BATCH_SIZE])


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
