"""A fleet that drains many queues over many shards: five servers, compared with one on a similar store.

Each fleet drains twice: with all programs alike, and with its database first. Usually, a database has a machine of its
own. Here, five servers take the processor from it, since each process gets an equal share. To let it be first, one has
to be root; without, those figures are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import Array
from threading import Thread
from typing import NamedTuple

import click

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.servers import CLIENTS, at_once
from benchmarks.setting import Setting
from pinlater.protocol.messages import PinLaterJobAckInfo

COUNTS = (1, 5)
SHARDS = 12
QUEUES = 500
CONSUMERS = 200
JOBS = 100_000
BATCH_SIZE = 50
_WAIT_MS = 2000


def measure(setting: Setting) -> list[Figure]:
    """Measure jobs per second until all are done, with consumers at all servers, and each server's processor time."""
    if not setting.stores.is_shared:
        return []
    consumers = setting.amount(CONSUMERS // CLIENTS) * CLIENTS
    queues = [f"queue{number}" for number in range(max(setting.amount(QUEUES), consumers))]
    with ExitStack() as stack:
        fleets = [_Fleet(setting, stack, count, queues, consumers) for count in COUNTS]
        figures = _compared(setting, "all alike", "", [fleet.drain for fleet in fleets])
        try:
            figures += _compared(setting, "database first", "_first", [fleet.drain_first for fleet in fleets])
        except PermissionError:
            click.echo("fleet_drain: only root can measure it with the database first", err=True)
    return figures


class Drained(NamedTuple):
    """What one drain has shown.

    Attributes:
        rate: jobs per second.
        shares: percent of a core that each server took.
    """

    rate: float
    shares: Sequence[float]


def _compared(setting: Setting, how: str, suffix: str, drains: Sequence[Callable[[], Drained]]) -> list[Figure]:
    """Measure the fleets in turns; return the figures of each."""
    return [
        figure
        for count, rounds in zip(COUNTS, setting.in_turns(*drains), strict=True)
        for figure in _figures(count, how, suffix, rounds)
    ]


def _figures(count: int, how: str, suffix: str, rounds: Sequence[Drained]) -> Iterable[Figure]:
    title = f"{count} server{'s' * (count > 1)}, {SHARDS} shards, {QUEUES} queues, {CONSUMERS} consumers, {how}"
    shares = [share for drained in rounds for share in drained.shares]
    name = f"fleet_{count}{suffix}"
    yield Figure(f"{name}_drain", f"{title}: dequeue and ack", "jobs/s", [drained.rate for drained in rounds])
    yield Figure(f"{name}_least_cpu", "  share of a core of the server that took least", "%", [min(shares)])
    yield Figure(f"{name}_most_cpu", "  and of the one that took most", "%", [max(shares)])


class _Fleet:
    """Servers on a store of their own, each consumer with a queue of its own."""

    def __init__(self, setting: Setting, stack: ExitStack, count: int, queues: Sequence[str], consumers: int) -> None:
        self._servers = [
            stack.enter_context(server) for server in setting.servers(count, f"fleet-of-{count}", shards=SHARDS)
        ]
        self._database = setting.stores.databases[-1]
        for queue in queues:
            self._servers[0].create_queue(queue)
        self._queues = queues[:consumers]
        self._jobs = max(setting.amount(JOBS) // consumers, 1)

    def drain(self) -> Drained:
        """Enqueue jobs, and measure how they are consumed.

        Raises:
            ProgramFailed: not all were done.
        """
        with self._servers[0].client() as client:
            for queue in self._queues:
                client.enqueue_many((Nothing(number=number) for number in range(self._jobs)), queue=queue)
        before, started = [server.cpu_seconds() for server in self._servers], time.monotonic()
        progress = [Progress() for _ in range(CLIENTS)]
        at_once([partial(_consume, self._servers, self._queues[n::CLIENTS], progress[n]) for n in range(CLIENTS)])
        done, jobs = sum(one.jobs for one in progress), self._jobs * len(self._queues)
        if done != jobs:
            raise ProgramFailed(f"{jobs} jobs were enqueued, but {done} were done")
        seconds = max(one.last for one in progress) - started
        taken = [server.cpu_seconds() - cpu for server, cpu in zip(self._servers, before, strict=True)]
        return Drained(done / seconds, [cpu / seconds * 100 for cpu in taken])

    def drain_first(self) -> Drained:
        """Do as ``drain``, with the processor given to the database first.

        Raises:
            PermissionError: only root may do that.
            ProgramFailed: not all were done.
        """
        with self._database.first():
            return self.drain()


class Progress:
    """Progress of the consumers of one process, visible to the process that started it."""

    def __init__(self) -> None:
        self._values = Array("d", 2)

    @property
    def jobs(self) -> int:
        """How many jobs were acknowledged."""
        return int(self._values[0])

    @property
    def last(self) -> float:
        """When the last ack was sent, in monotonic seconds."""
        return float(self._values[1])

    def add(self, jobs: int, at: float) -> None:
        """Record jobs whose acks were sent at a moment, in monotonic seconds."""
        with self._values.get_lock():
            self._values[0] += jobs
            self._values[1] = max(self._values[1], at)


def _consume(servers: Sequence[Server], queues: Sequence[str], progress: Progress) -> None:
    """Consume over one connection per queue, until no jobs have come for a while."""
    threads = [
        Thread(target=_drain, args=(servers[number % len(servers)], queue, progress))
        for number, queue in enumerate(queues)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _drain(server: Server, queue: str, progress: Progress) -> None:
    acks: Sequence[PinLaterJobAckInfo] = ()
    with server.connection() as connection:
        while True:
            send_dequeue(connection, queue, BATCH_SIZE, acks, wait_ms=_WAIT_MS)
            sent_at = time.monotonic()
            found = acks_of(connection.receive(60.0))
            if acks:
                progress.add(len(acks), sent_at)
            if not found:
                return
            acks = found
