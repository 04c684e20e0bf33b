"""What jobs with keys cost; the benchmark "key_flood" measures how long they wait."""

from __future__ import annotations

import time

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.client import NewJob
from pinlater.model.keys import JobKey

JOBS = 60_000
KEYS = 10_000
BATCH_SIZE = 20
ENQUEUED_AT_ONCE = 500

_WAIT_MS = 1000
_PATIENCE_SECONDS = 120.0

_KINDS = {
    "no_key": ("without a key", lambda _: None),
    "turns": (f"{KEYS:,} keys that take turns", lambda number: JobKey(f"k{number % KEYS}")),
    "ordered": (f"{KEYS:,} ordered keys", lambda number: JobKey(f"k{number % KEYS}", 1, is_ordered=True)),
    "one_key": ("all of one key", lambda _: JobKey("flood")),
}


def measure(setting: Setting) -> list[Figure]:
    """Measure rates of enqueue and drain by kind of key."""
    jobs = setting.amount(JOBS, step=ENQUEUED_AT_ONCE)
    figures: list[Figure] = []
    with setting.server() as server:
        rounds = setting.in_turns(*[lambda kind=kind: _rates(server, kind, jobs) for kind in _KINDS])  # type: ignore[misc]
        for (kind, (title, _)), found in zip(_KINDS.items(), rounds, strict=True):
            stored, drained = zip(*found, strict=True)
            figures += [
                Figure(f"keys_{kind}_enqueue", f"enqueue, {title}", "jobs/s", stored),
                Figure(f"keys_{kind}_drain", f"  dequeue and ack, batches of {BATCH_SIZE}", "jobs/s", drained),
            ]
    return figures


def _rates(server: Server, kind: str, jobs: int) -> tuple[float, float]:
    """Return jobs per second, stored and drained."""
    queue = server.create_queue(f"{kind}_{time.monotonic_ns()}")
    started = time.perf_counter()
    _store(server, queue, kind, jobs)
    stored = time.perf_counter()
    _drain(server, queue, jobs)
    return jobs / (stored - started), jobs / (time.perf_counter() - stored)


def _store(server: Server, queue: str, kind: str, jobs: int) -> None:
    key_of = _KINDS[kind][1]
    with server.client() as client:
        for start in range(0, jobs, ENQUEUED_AT_ONCE):
            batch = [NewJob(b"0", key=key_of(number)) for number in range(start, start + ENQUEUED_AT_ONCE)]
            client.enqueue_jobs(queue, batch)


def _drain(server: Server, queue: str, jobs: int) -> None:
    """Dequeue and ack on one connection; a dequeue may get fewer jobs than its limit, since some wait for their key."""
    done, until = 0, time.monotonic() + _PATIENCE_SECONDS
    with server.connection() as connection:
        send_dequeue(connection, queue, BATCH_SIZE, wait_ms=_WAIT_MS)
        while done < jobs:
            acks = acks_of(connection.receive(30.0))
            done += len(acks)
            if time.monotonic() > until:
                raise ProgramFailed(f"{jobs} jobs were enqueued, and {done} handed out")
            send_dequeue(connection, queue, BATCH_SIZE, acks, wait_ms=_WAIT_MS if done < jobs else 0)
        connection.receive(30.0)
