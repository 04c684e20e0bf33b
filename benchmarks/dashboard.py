"""The dashboard over a full store: how long its pages take, and what it costs the work that people look on."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure, percentile
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from benchmarks.viewers import Browser
from pinlater import Client
from pinlater.client.connection import Connection
from pinlater.errors import PinLaterError
from pinlater.jobs.body_codec import encode_body
from pinlater.model.attempts import Ack
from pinlater.model.body_metadata import periodic_key
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.status import format_failure, format_origin, status_space
from pinlater.model.workers import RunningJob, WorkerProcess, WorkerReport
from pinlater.protocol.messages import PinLaterJobAckInfo

JOBS = 5_000_000
"""In all: so many tenths are PENDING, PENDING and scheduled, SUCCEEDED and FAILED."""
TENTHS = {"pending": 4, "scheduled": 3, "succeeded": 2, "failed": 1}
QUEUES = 500
"""The first has as many jobs as a hundred others."""
DEEP = 100

VIEWERS = 10
VISITS = 25
"""Of each page. One follows the other, so that what a page remembers of its last visit has grown old."""
TURN_SECONDS = 0.1
DEQUEUES = 2_000
PAUSE_SECONDS = 0.002
SETTLE_SECONDS = 2.0
"""Until all pages are open."""
BATCH_SIZE = 10

WORKERS = 25
PROCESSES = 8
"""Of each worker."""
REPORT_SECONDS = 4.0
FAILING_QUEUES = 100
RETRIES = 20
"""Jobs of each of them whose first attempt has failed."""

_QUEUE = "nothing"
_FILL_BATCH_SIZE = 1_000
_DAY_MS = 24 * 3600 * 1000
_ERRORS = ("ConnectionRefusedError: mail-{}.example.com", "KeyError: 'locale'", "Discard: the address bounced {} times")


def measure(setting: Setting) -> list[Figure]:
    """Measure each page over the full store, then the dequeues of a worker without and with people who look on."""
    jobs, queues = setting.amount(JOBS), _queues(setting.amount(QUEUES))
    with setting.server() as server, server.connection() as consumer:
        _fill(server, queues, jobs)
        with _workers_report(server, queues):
            pages = _pages(server, queues)
            times = _visit(server, pages, setting.amount(VISITS))
            paths = [path(0) for path in pages.values()]
            dequeues = setting.amount(DEQUEUES)
            alone, watched = setting.in_turns(
                lambda: _dequeue(consumer, dequeues),
                lambda: _dequeue_watched(setting, server, paths, consumer, dequeues),
            )
    size = f"{jobs:,} jobs, {len(queues):,} queues"
    return [
        *(_page_figure(name, percent, size, found) for name, found in times.items() for percent in (50, 95)),
        *(_dequeue_figure(percent, alone, watched) for percent in (50, 99)),
    ]


def _queues(count: int) -> list[str]:
    return [_QUEUE, *(f"queue_{number:03d}" for number in range(1, count))]


# The store


def _fill(server: Server, queues: list[str], jobs: int) -> None:
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


# Workers


@contextlib.contextmanager
def _workers_report(server: Server, queues: list[str]) -> Iterator[None]:
    """Report workers for all queues, as workers do."""
    is_over = threading.Event()

    def report() -> None:
        with server.client() as client, contextlib.suppress(PinLaterError):
            while not is_over.wait(REPORT_SECONDS / WORKERS):
                client.report_worker(_report(next(numbers), queues), 60)

    numbers = itertools.cycle(range(WORKERS))
    with server.client() as client:
        for number in range(WORKERS):
            client.report_worker(_report(number, queues), 60)
    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _report(number: int, queues: list[str]) -> WorkerReport:
    now_ms, served = _now_ms(), queues[number::WORKERS]
    running = [RunningJob(f"{served[0] if served else _QUEUE}:s1:p1:{number + 1}", now_ms)]
    processes = [
        WorkerProcess(1000 + one, "pool", served, now_ms - _DAY_MS, 2**26, 1, 1000, running, 2**26)
        for one in range(PROCESSES)
    ]
    return WorkerReport(f"web{number}", f"web{number}", 42, processes=processes, sent_ms=now_ms)


# The pages


def _pages(server: Server, queues: list[str]) -> dict[str, Callable[[int], str]]:
    """Return what makes the path of each page for its so many-th visit: of a queue, that of another one each time."""
    with server.client() as client:
        failed = client.scan(_QUEUE, JobState.FAILED, limit=50)
        pending = client.scan(_QUEUE, JobState.PENDING, limit=1).jobs[0]
    jobs, names = f"/jobs?queue={_QUEUE}&state=", queues[1:]
    fixed = {
        "overview": "/",
        "sorted": "/?sort=pending",
        "queue": f"/queues/{_QUEUE}",
        "pending": f"{jobs}pending",
        "scheduled": f"{jobs}scheduled",
        "succeeded": f"{jobs}succeeded",
        "failed_jobs": f"{jobs}failed",
        "further": f"{jobs}failed&from={failed.continuation}",
        "job": f"/job?id={pending.descriptor}",
        "failing": "/failing",
        "periodic": "/periodic",
        "classes": "/classes",
        "workers": "/workers",
        "server": "/server",
        "charts": f"/charts?queue={_QUEUE}&range=30d",
    }
    rotating = {"other_queue": "/queues/{}", "other_jobs": "/jobs?queue={}&state=pending"}
    return {
        **{name: (lambda _, path=path: path) for name, path in fixed.items()},
        **{name: (lambda visit, path=path: path.format(names[visit % len(names)])) for name, path in rotating.items()},
    }


def _visit(server: Server, pages: dict[str, Callable[[int], str]], visits: int) -> dict[str, list[float]]:
    """Return the milliseconds of each visit, page by page."""
    times: dict[str, list[float]] = {name: [] for name in pages}
    with closing(Browser(server.admin_port)) as browser:
        for visit in range(visits):
            for name, path in pages.items():
                times[name].append(browser.time_ms(path(visit)))
                time.sleep(TURN_SECONDS)
    return times


def _page_figure(name: str, percent: int, size: str, found: list[float]) -> Figure:
    title = f"page {name}, {'median' if percent == 50 else f'p{percent}'}; {size}"
    return Figure(f"dashboard_{name}_p{percent}", title, "ms", [percentile(found, percent)])


# The work


def _dequeue_watched(
    setting: Setting, server: Server, paths: list[str], consumer: Connection, count: int
) -> list[float]:
    with setting.viewers(server, paths, VIEWERS) as viewers:
        time.sleep(min(SETTLE_SECONDS, count * PAUSE_SECONDS))
        times = _dequeue(consumer, count)
        viewers.check()
        return times


def _dequeue(consumer: Connection, count: int) -> list[float]:
    """Return the milliseconds of so many dequeues, acks on board."""
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


def _dequeue_figure(percent: int, alone: list[list[float]], watched: list[list[float]]) -> Figure:
    """Compare both; the rounds stand close together, so each has its own comparison."""
    return Figure(
        f"dashboard_dequeue_p{percent}",
        f"dequeue p{percent}, {VIEWERS} dashboards open; beside none",
        "ms",
        [percentile(round_, percent) for round_ in watched],
        [percentile(round_, percent) for round_ in alone],
    )
