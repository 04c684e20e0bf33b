"""A fleet that drains many queues over many shards: five servers, compared with one on a similar store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import Array
from threading import Thread

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
        rounds = [_with(setting, stack, count, queues, consumers) for count in COUNTS]
        found = dict(zip(COUNTS, setting.in_turns(*rounds), strict=True))
    return [figure for count in COUNTS for figure in _figures(count, found[count])]


def _figures(count: int, rounds: Sequence[tuple[float, list[float]]]) -> list[Figure]:
    title = f"{count} server{'s' * (count > 1)}, {SHARDS} shards, {QUEUES} queues, {CONSUMERS} consumers"
    shares = [share for _, shares in rounds for share in shares]
    return [
        Figure(f"fleet_{count}_drain", f"{title}: dequeue and ack", "jobs/s", [rate for rate, _ in rounds]),
        Figure(f"fleet_{count}_least_cpu", "  share of a core of the server that took least", "%", [min(shares)]),
        Figure(f"fleet_{count}_most_cpu", "  and of the one that took most", "%", [max(shares)]),
    ]


def _with(
    setting: Setting, stack: ExitStack, count: int, queues: Sequence[str], consumers: int
) -> Callable[[], tuple[float, list[float]]]:
    """Start ``count`` servers on a store; return a function that measures jobs per second and CPU percent of each."""
    servers = [stack.enter_context(server) for server in setting.servers(count, f"fleet-of-{count}", shards=SHARDS)]
    for queue in queues:
        servers[0].create_queue(queue)
    jobs = max(setting.amount(JOBS) // consumers, 1)

    def measure_once() -> tuple[float, list[float]]:
        with servers[0].client() as client:
            for queue in queues[:consumers]:
                client.enqueue_many((Nothing(number=number) for number in range(jobs)), queue=queue)
        cpu, started = [server.cpu_seconds() for server in servers], time.monotonic()
        progress = [Progress() for _ in range(CLIENTS)]
        at_once([partial(_consume, servers, queues[n:consumers:CLIENTS], progress[n]) for n in range(CLIENTS)])
        done = sum(one.jobs for one in progress)
        if done != jobs * consumers:
            raise ProgramFailed(f"{jobs * consumers} jobs were enqueued, but {done} were done")
        seconds = max(one.last for one in progress) - started
        shares = [(server.cpu_seconds() - before) / seconds * 100 for server, before in zip(servers, cpu, strict=True)]
        return done / seconds, shares

    return measure_once


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
