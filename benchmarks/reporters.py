"""Simulated workers that report for queues, until terminated.

It is a separate program, so that it does not delay what is measured meanwhile: ``ADDRESS QUEUE...``.
"""

from __future__ import annotations

import itertools
import sys
import time

from pinlater import Client
from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport

WORKERS = 25
PROCESSES = 8
"""Job processes of each worker."""
REPORT_SECONDS = 4.0

_KEPT_SECONDS = 60
_DAY_MS = 24 * 3600 * 1000


def main() -> None:
    """Report for all workers at once, then for one after the other."""
    address, *queues = sys.argv[1:]
    with Client(address) as client:
        for count in itertools.count():
            client.report_worker(_report(count % WORKERS, queues), _KEPT_SECONDS)
            if count >= WORKERS:
                time.sleep(REPORT_SECONDS / WORKERS)


def _report(number: int, queues: list[str]) -> WorkerReport:
    now_ms, served = time.time_ns() // 1_000_000, queues[number::WORKERS]
    running = [RunningJob(f"{(served or queues)[0]}:s1:p1:{number + 1}", now_ms)]
    processes = [
        WorkerProcess(1000 + one, "pool", served, now_ms - _DAY_MS, 2**26, 1, 1000, running, 2**26)
        for one in range(PROCESSES)
    ]
    return WorkerReport(f"web{number}", f"web{number}", 42, processes=processes, sent_ms=now_ms)
