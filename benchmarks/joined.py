"""One job calls many others and gets all their results, compared with as many plain jobs that a client enqueues."""

from __future__ import annotations

import time

from benchmarks.figures import Figure
from benchmarks.jobs import CallMany, Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import JobState

JOBS = 100_000
PROCESSES = 2
PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 0.05


def measure(setting: Setting) -> list[Figure]:
    """Measure both from the first enqueue to the last end, with a worker that is already running."""
    jobs = setting.amount(JOBS)
    bodies: list[float] = []
    with setting.server() as server, setting.worker(server, processes=PROCESSES):
        server.create_queue("nothing")
        plain, joined = setting.in_turns(lambda: _plain(server, jobs), lambda: _joined(server, jobs, bodies))
    title = f"{jobs} jobs, worker with {PROCESSES} processes, from the first enqueue to the last end"
    shares = [one / other for one, other in zip(joined, plain, strict=True)]
    return [
        Figure("joined_plain", f"{title}, plain", "jobs/s", plain),
        Figure("joined", "  called by one job, which gets their results", "jobs/s", joined),
        Figure("joined_share", "  as a share of the plain ones", "times", shares),
        Figure("joined_body", "  body of the job that has called them", "bytes", bodies),
    ]


def _plain(server: Server, jobs: int) -> float:
    with server.client() as client:
        started = time.monotonic()
        client.enqueue_many(Nothing(number=number) for number in range(jobs))
        # Counts the jobs left: servers count up to a limit, which the succeeded jobs of several rounds exceed.
        while left := sum(client.count("nothing", state) for state in (JobState.PENDING, JobState.IN_PROGRESS)):
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise ProgramFailed(f"{jobs} jobs were enqueued, but {left} are left")
            time.sleep(_POLL_SECONDS)
        return jobs / (time.monotonic() - started)


def _joined(server: Server, jobs: int, bodies: list[float]) -> float:
    with server.client() as client:
        started = time.monotonic()
        handle = client.enqueue(CallMany(jobs=jobs))
        total = handle.result(timeout=PATIENCE_SECONDS)
        rate = jobs / (time.monotonic() - started)
        if total != jobs:
            raise ProgramFailed(f"{jobs} jobs were called, but {total} results came back")
        bodies.append(float(len(handle.status(include_body=True).body or b"")))
        return rate
