"""Drain of a full queue, by a real worker and by the leanest possible consumer."""

from __future__ import annotations

import time

from benchmarks.consumer import drain
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.jobs.body_codec import encode_body

JOBS = 300_000
BATCH_SIZE = 250
PROCESSES = 2
PATIENCE_SECONDS = 120.0

_APART_SECONDS = 0.5
"""Jobs that ended before are told apart by their time, from the store's clock, which may be a little ahead."""


def measure(setting: Setting) -> list[Figure]:
    """Measure rates of claimed, run and acknowledged jobs."""
    jobs = setting.amount(JOBS, step=2 * BATCH_SIZE)
    batch = [encode_body(Nothing(number=number)) for number in range(2 * BATCH_SIZE)]
    cpu_us: list[float] = []
    with setting.bare() as store, setting.server() as server:
        server.create_queue("nothing")

        def bare() -> float:
            for _ in range(jobs // len(batch)):
                store.insert(batch)
            started = time.perf_counter()
            store.drain(BATCH_SIZE, most=jobs)
            return jobs / (time.perf_counter() - started)

        def lean() -> float:
            _fill(server, jobs)
            cpu, started = server.cpu_seconds(), time.perf_counter()
            with server.connection() as connection:
                _expect(drain(connection, "nothing", BATCH_SIZE, most=jobs + BATCH_SIZE), jobs)
            rate = jobs / (time.perf_counter() - started)
            cpu_us.append((server.cpu_seconds() - cpu) / jobs * 1e6)
            return rate

        bare_rates, lean_rates, rates = setting.in_turns(bare, lean, lambda: _with_worker(setting, server, jobs))
    title = f"dequeue and ack, batches of {BATCH_SIZE}, plain consumer"
    return [
        Figure("worker_drain", f"worker, {PROCESSES} processes, jobs that do nothing", "jobs/s", rates, bare_rates),
        Figure("raw_drain", title, "jobs/s", lean_rates, bare_rates),
        Figure("raw_drain_cpu", "  processor time of the server", "us/job", cpu_us),
    ]


def _with_worker(setting: Setting, server: Server, jobs: int) -> float:
    _fill(server, jobs)
    time.sleep(_APART_SECONDS)
    started_ms = time.time_ns() // 1_000_000
    with setting.worker(server, processes=PROCESSES, burst=True) as worker:
        worker.finish(PATIENCE_SECONDS)
    return _rate(setting, started_ms, jobs)


def _rate(setting: Setting, started_ms: int, jobs: int) -> float:
    """Return the rate between the first and the last ack, whose times the store has recorded.

    So the start of the worker's processes does not count, and nobody has to poll while they work. A worker begins with
    one job, so that its first ack closely follows its first dequeue.
    """
    first_ms, last_ms, count = setting.finished(started_ms)
    _expect(count, jobs)
    return jobs * 1000.0 / max(last_ms - first_ms, 1.0)


def _fill(server: Server, jobs: int) -> None:
    with server.client() as client:
        client.enqueue_many(Nothing(number=number) for number in range(jobs))


def _expect(done: int, jobs: int) -> None:
    if done != jobs:
        raise ProgramFailed(f"{jobs} jobs were enqueued, but {done} were done")
