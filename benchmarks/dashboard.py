"""The dashboard over a full store: how long its pages take, and how much its viewers slow down the work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.dashboard_pages import pages_of, visit
from benchmarks.figures import Figure, percentile
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import Client
from pinlater.client.connection import Connection
from pinlater.jobs.body_codec import encode_body
from pinlater.model.attempts import Ack
from pinlater.model.body_metadata import periodic_key
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.status import format_failure, format_origin, status_space
from pinlater.protocol.messages import PinLaterJobAckInfo

JOBS = 5_000_000
"""Total; ``TENTHS`` has the shares of due, scheduled, succeeded and failed jobs."""
TENTHS = {"pending": 4, "scheduled": 3, "succeeded": 2, "failed": 1}
QUEUES = 500
"""The first one has as many jobs as ``DEEP`` others."""
DEEP = 100

VIEWERS = 10
DEQUEUES = 2_000
PAUSE_SECONDS = 0.002
SETTLE_SECONDS = 8.0
"""How long until all pages are open and have refreshed themselves."""
BATCH_SIZE = 10

FAILING_QUEUES = 100
RETRIES = 20
"""Jobs of each failing queue whose first attempt has failed."""

_QUEUE = "nothing"
_FILL_BATCH_SIZE = 1_000
_DAY_MS = 24 * 3600 * 1000
_ERRORS = ("ConnectionRefusedError: mail-{}.example.com", "KeyError: 'locale'", "Discard: the address bounced {} times")


def measure(setting: Setting) -> list[Figure]:
    """Measure each page over the full store, then the dequeues of a worker without and with viewers."""
    jobs, queues = setting.amount(JOBS), queues_of(setting.amount(QUEUES))
    with setting.server(has_dashboard=True) as server:
        fill(server, queues, jobs)
        return measure_filled(setting, server, queues, f"{jobs:,} jobs, {len(queues):,} queues")


def measure_filled(setting: Setting, server: Server, queues: list[str], size: str) -> list[Figure]:
    """Measure the same on a store that is already full."""
    with setting.reporters(server, queues):
        pages = pages_of(server, queues)
        return [*visit(setting, server, pages, size), *_watch(setting, server, [path(0) for path in pages.values()])]


def queues_of(count: int) -> list[str]:
    return [_QUEUE, *(f"queue_{number:03d}" for number in range(1, count))]


# The store


def fill(server: Server, queues: list[str], jobs: int) -> None:
    with server.client() as client:
        each = max(jobs // (DEEP + len(queues) - 1), 10)
        for queue in queues:
            client.create_queue(queue)
            share = each * DEEP if queue == _QUEUE else each
            for standing, tenths in TENTHS.items():
                _fill_with(client, queue, standing, share * tenths // 10)
            client.enqueue_jobs(queue, [_periodic(queue)])
        for queue in queues[1 : FAILING_QUEUES + 1]:
            _fail_attempts(client, queue)


def _fill_with(client: Client, queue: str, standing: str, count: int) -> None:
    state = JobState[standing.upper()] if standing in {"succeeded", "failed"} else JobState.PENDING
    run_after_ms = _now_ms() + _DAY_MS if standing == "scheduled" else None
    for first in range(0, count, _FILL_BATCH_SIZE):
        numbers = range(first, min(first + _FILL_BATCH_SIZE, count))
        if state is JobState.PENDING:
            bodies = (encode_body(Nothing(number=number)) for number in numbers)
            client.enqueue_jobs(queue, [NewJob(body, run_after_ms=run_after_ms) for body in bodies])
        else:
            client.import_jobs(queue, list(_finished(queue, state, numbers)))


def _finished(queue: str, state: JobState, numbers: range) -> Iterator[JobInfo]:
    """Yield jobs that have ended within the last hour."""
    now_ms = _now_ms()
    for number in numbers:
        ended_ms = now_ms - number % 3_600_000
        status = _status(number) if state is JobState.FAILED else ""
        body = encode_body(Nothing(number=number))
        left = 0 if state is JobState.FAILED else 3
        yield JobInfo(f"{queue}:s1:p1:{number + 1}", state, 4, left, status, ended_ms, ended_ms, ended_ms, None, body)


def _fail_attempts(client: Client, queue: str) -> None:
    """Let the first attempts of some jobs fail; they are retried later."""
    claimed = client.dequeue_jobs(queue, RETRIES)
    failed = [Ack(job.descriptor, job.claim, _status(number), 3600) for number, job in enumerate(claimed)]
    client.ack(queue, failed=failed)


def _status(number: int) -> str:
    error = _ERRORS[number % len(_ERRORS)].format(number)
    origin = format_origin("web1", 42, time.time())
    return format_failure(f"attempt 1/4 {origin} 0.52 s", error, [], status_space(1, 4))


def _periodic(queue: str) -> NewJob:
    due_ms, schedule = _now_ms() + _DAY_MS, "cron 0 3 * * * Europe/Berlin"
    body = json.dumps({"job": "Nightly", "$again": {"due_ms": due_ms, "schedule": schedule, "runs": 7}}).encode()
    return NewJob(body, run_after_ms=due_ms, unique=periodic_key(f"Nightly{queue}", schedule))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# The work


def _watch(setting: Setting, server: Server, paths: list[str]) -> list[Figure]:
    """Measure dequeues without viewers, with viewers on other machines, and with viewers on this machine."""
    dequeues = setting.amount(DEQUEUES)
    read: dict[bool, list[float]] = {True: [], False: []}

    def watched(*, apart: bool) -> list[float]:
        with setting.viewers(server, paths, VIEWERS, apart=apart) as viewers:
            time.sleep(min(SETTLE_SECONDS, dequeues * PAUSE_SECONDS))
            started, pages = time.monotonic(), viewers.pages()
            times = _dequeue(consumer, dequeues)
            read[apart].append((viewers.pages() - pages) / (time.monotonic() - started))
            viewers.check()
            return times

    with server.connection() as consumer:
        alone, apart, sharing = setting.in_turns(
            lambda: _dequeue(consumer, dequeues), lambda: watched(apart=True), lambda: watched(apart=False)
        )
    return [
        figure
        for name, kind, found in (("apart", "on other machines", apart), ("sharing", "on this machine", sharing))
        for figure in (
            *(_dequeue_figure(percent, name, kind, alone, found) for percent in (50, 99)),
            Figure(f"dashboard_{name}_pages", f"pages read by {VIEWERS} {kind}", "pages/s", read[name == "apart"]),
        )
    ]


def _dequeue(consumer: Connection, count: int) -> list[float]:
    """Return the milliseconds of each of ``count`` dequeues that carry acks."""
    times = []
    acks: list[PinLaterJobAckInfo] = []
    for _ in range(count):
        time.sleep(PAUSE_SECONDS)
        started = time.perf_counter()
        send_dequeue(consumer, _QUEUE, BATCH_SIZE, acks)
        acks = acks_of(consumer.receive(30.0))
        times.append((time.perf_counter() - started) * 1000)
        if len(acks) != BATCH_SIZE:
            raise ProgramFailed(f"a dequeue brought {len(acks)} jobs of a full queue")
    return times


def _dequeue_figure(percent: int, name: str, kind: str, alone: list[list[float]], watched: list[list[float]]) -> Figure:
    """Compare both, round by round, since the measurements of a round are close together in time."""
    return Figure(
        f"dashboard_{name}_dequeue_p{percent}",
        f"dequeue p{percent}, {VIEWERS} dashboards open {kind}; beside none",
        "ms",
        [percentile(round_, percent) for round_ in watched],
        [percentile(round_, percent) for round_ in alone],
    )
