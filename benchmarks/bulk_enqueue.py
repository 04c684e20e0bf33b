"""One producer that stores many jobs: without pauses, with pauses, and right after the start of the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.setting import Setting
from benchmarks.stores import Bare
from pinlater import Client
from pinlater.jobs.body_codec import encode_body

JOBS = 300_000
BATCH_SIZE = 500

PAUSED_JOBS = 150_000
PAUSE_SECONDS = 0.02
"""Pause before each batch, so that the machine is mostly idle."""

FRESH_JOBS = 30_000
"""Jobs measured right after a start."""

_BATCH = [encode_body(Nothing(number=number)) for number in range(BATCH_SIZE)]


def measure(setting: Setting) -> list[Figure]:
    """Measure the rates, and the server's processor time per job."""
    jobs = setting.amount(JOBS, step=BATCH_SIZE)
    paused_jobs = setting.amount(PAUSED_JOBS // setting.rounds, step=BATCH_SIZE)
    cpu_us: list[float] = []
    with setting.bare() as store, setting.server() as server, server.client() as client:
        server.create_queue("nothing")

        def ours() -> float:
            cpu = server.cpu_seconds()
            rate = _rate(jobs, _ours(client))
            cpu_us.append((server.cpu_seconds() - cpu) / jobs * 1e6)
            return rate

        bare_rates, rates = setting.in_turns(lambda: _rate(jobs, _bare(store)), ours)
        bare_paused, paused = setting.in_turns(
            lambda: _paused_rate(paused_jobs, _bare(store)), lambda: _paused_rate(paused_jobs, _ours(client))
        )
    title = f"enqueue, 1 producer, batches of {BATCH_SIZE}"
    title_of_paused = f"{title}, each after {PAUSE_SECONDS * 1000:.0f} ms"
    return [
        Figure("bulk_enqueue", title, "jobs/s", rates, bare_rates),
        Figure("bulk_enqueue_cpu", "  processor time of the server", "us/job", cpu_us),
        Figure("bulk_enqueue_paused", title_of_paused, "jobs/s", paused, bare_paused),
        *_fresh(setting, title),
    ]


def _fresh(setting: Setting, title: str) -> list[Figure]:
    """Measure the first jobs of servers that have just started, each on an empty file."""
    if setting.stores.is_shared:
        return []  # the start of the database would be measured
    jobs = setting.amount(FRESH_JOBS, step=BATCH_SIZE)
    names = (f"fresh-{number}" for number in count())

    def bare() -> float:
        with setting.bare(next(names)) as store:
            return _rate(jobs, _bare(store))

    def ours() -> float:
        with setting.server(next(names)) as server, server.client() as client:
            server.create_queue("nothing")
            return _rate(jobs, _ours(client))

    bare_rates, rates = setting.in_turns(bare, ours)
    return [Figure("bulk_enqueue_fresh", f"{title}, the first {jobs:,} jobs of a server", "jobs/s", rates, bare_rates)]


def _ours(client: Client) -> Callable[[int], object]:
    return lambda jobs: client.enqueue_many((Nothing(number=number) for number in range(jobs)), batch_size=BATCH_SIZE)


def _bare(store: Bare) -> Callable[[int], object]:
    def insert(jobs: int) -> None:
        for _ in range(jobs // BATCH_SIZE):
            store.insert(_BATCH)

    return insert


def _rate(jobs: int, store: Callable[[int], object]) -> float:
    started = time.perf_counter()
    store(jobs)
    return jobs / (time.perf_counter() - started)


def _paused_rate(jobs: int, store: Callable[[int], object]) -> float:
    """Return jobs per second, without the pauses."""
    seconds = 0.0
    for _ in range(jobs // BATCH_SIZE):
        time.sleep(PAUSE_SECONDS)
        seconds += BATCH_SIZE / _rate(BATCH_SIZE, store)
    return jobs / seconds
