"""A queue on a store of many shards, first idle, then under load: on all shards, on one, or on as many as it needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure
from benchmarks.fleet_drain import Progress
from benchmarks.programs import ProgramFailed, Server
from benchmarks.servers import at_once
from benchmarks.setting import Setting
from pinlater.client import NewJob
from pinlater.protocol.messages import PinLaterJobAckInfo

SHARDS = 12
SECONDS = 60.0
"""Time under load; the second half is measured, as it takes a while until all shards are used."""
ENQUEUE_SIZE = 20
DEQUEUE_SIZE = 50

_IDLE_SECONDS = 30.0
_WAIT_MS = 500
_NUMBERS = {"all": 0, "one": 1, "auto": -1}


def measure(setting: Setting) -> list[Figure]:
    """Measure jobs done per second while more are enqueued, and how many shards the queue then uses."""
    if not setting.stores.is_shared:
        return []
    with ExitStack() as stack:
        rounds = [_with(setting, stack, name, shards) for name, shards in _NUMBERS.items()]
        found = dict(zip(_NUMBERS, setting.in_turns(*rounds), strict=True))
    figures = []
    for name, of_queue in found.items():
        title = f"{SHARDS} shards, a queue that uses {name}"
        rates, used = zip(*of_queue, strict=True)
        figures.append(Figure(f"queue_shards_{name}", f"{title}: done while more are enqueued", "jobs/s", rates))
        figures.append(Figure(f"queue_shards_{name}_used", "  shards in use at the end", "", used))
    return figures


def _with(setting: Setting, stack: ExitStack, name: str, shards: int) -> Callable[[], tuple[float, float]]:
    """Start a server on a store; return a function that measures one round: jobs per second, and the shards in use."""
    [server] = setting.servers(1, f"queue-{name}", shards=SHARDS)
    stack.enter_context(server)
    seconds = max(SECONDS * setting.scale, 2.0)

    def measure_once() -> tuple[float, float]:
        queue = f"jobs{time.monotonic_ns()}"
        server.create_queue(queue)
        with server.client() as client:
            client.change_queue(queue, shards=shards)
            _await_used(server, queue, shards)
            progress = Progress()
            begins, ends = time.monotonic() + seconds / 2, time.monotonic() + seconds
            producer = partial(_produce, server, queue, ends)
            at_once([producer, producer, partial(_consume, server, queue, begins, ends, progress)])
            used = len(client.queue_settings()[queue].active_shards) or SHARDS
            client.change_queue(queue, shards=1)
        return progress.jobs / (progress.last - begins), used

    return measure_once


def _await_used(server: Server, queue: str, shards: int) -> None:
    """Wait until the queue, while idle, uses as many shards as it should."""
    wanted = abs(shards)
    deadline = time.monotonic() + _IDLE_SECONDS
    with server.client() as client:
        while len(client.queue_settings()[queue].active_shards) != wanted:
            if time.monotonic() > deadline:
                raise ProgramFailed(f"queue {queue} does not come to use {wanted or 'all'} shards")
            time.sleep(0.1)


def _produce(server: Server, queue: str, ends: float) -> None:
    with server.client() as client:
        while time.monotonic() < ends:
            client.enqueue_jobs(queue, [NewJob(b"{}")] * ENQUEUE_SIZE)


def _consume(server: Server, queue: str, begins: float, ends: float, progress: Progress) -> None:
    """Consume until ``ends``; count the jobs from ``begins`` on."""
    acks: Sequence[PinLaterJobAckInfo] = ()
    with server.connection() as connection:
        while time.monotonic() < ends:
            send_dequeue(connection, queue, DEQUEUE_SIZE, acks, wait_ms=_WAIT_MS)
            sent_at = time.monotonic()
            found = acks_of(connection.receive(60.0))
            if acks and sent_at > begins:
                progress.add(len(acks), sent_at)
            acks = found
