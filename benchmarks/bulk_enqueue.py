"""One producer that stores many jobs."""

from __future__ import annotations

import time

from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.setting import Setting
from pinlater.jobs.body_codec import encode_body

JOBS = 300_000
BATCH_SIZE = 500


def measure(setting: Setting) -> list[Figure]:
    """Measure the rate, and the server's processor time for a job."""
    jobs = setting.amount(JOBS, step=BATCH_SIZE)
    batch = [encode_body(Nothing(number=number)) for number in range(BATCH_SIZE)]
    cpu_us: list[float] = []
    with setting.bare() as store, setting.server() as server, server.client() as client:
        server.create_queue("nothing")

        def bare() -> float:
            started = time.perf_counter()
            for _ in range(jobs // BATCH_SIZE):
                store.insert(batch)
            return jobs / (time.perf_counter() - started)

        def ours() -> float:
            cpu, started = server.cpu_seconds(), time.perf_counter()
            client.enqueue_many((Nothing(number=number) for number in range(jobs)), batch_size=BATCH_SIZE)
            rate = jobs / (time.perf_counter() - started)
            cpu_us.append((server.cpu_seconds() - cpu) / jobs * 1e6)
            return rate

        bare_rates, rates = setting.in_turns(bare, ours)
    return [
        Figure("bulk_enqueue", f"enqueue, 1 producer, batches of {BATCH_SIZE}", "jobs/s", rates, bare_rates),
        Figure("bulk_enqueue_cpu", "  processor time of the server", "us/job", cpu_us),
    ]
