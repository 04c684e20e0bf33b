"""The dashboard over a full store: how long its pages take, and what it costs the work that people look on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.consumer import acks_of, send_dequeue
from benchmarks.figures import Figure, percentile
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from benchmarks.viewers import Browser
from pinlater import Client
from pinlater.client.connection import Connection
from pinlater.jobs.body_codec import encode_body
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.protocol.messages import PinLaterJobAckInfo

JOBS = 5_000_000
"""In all: so many tenths are PENDING, PENDING and scheduled, SUCCEEDED and FAILED."""
TENTHS = {"pending": 4, "scheduled": 3, "succeeded": 2, "failed": 1}

VIEWERS = 10
VISITS = 15
"""Of each page. One follows the other, so that what a page remembers of its last visit has grown old."""
TURN_SECONDS = 0.2
DEQUEUES = 2_000
PAUSE_SECONDS = 0.002
SETTLE_SECONDS = 2.0
"""Until all pages are open."""
BATCH_SIZE = 10

_QUEUE = "nothing"
_FILL_BATCH_SIZE = 1_000
_DAY_MS = 24 * 3600 * 1000
_ERRORS = ("ConnectionRefusedError: mail-{}.example.com", "KeyError: 'locale'", "Discard: the address bounced {} times")


def measure(setting: Setting) -> list[Figure]:
    """Measure each page over the full store, then the dequeues of a worker without and with people who look on."""
    tenth = setting.amount(JOBS // 10)
    with setting.server() as server, server.connection() as consumer:
        _fill(server, tenth)
        pages = _pages(server)
        times = _visit(server, pages, setting.amount(VISITS))
        dequeues = setting.amount(DEQUEUES)
        alone, watched = setting.in_turns(
            lambda: _dequeue(consumer, dequeues),
            lambda: _dequeue_watched(setting, server, list(pages.values()), consumer, dequeues),
        )
    return [
        *(
            Figure(f"dashboard_{name}", f"page {name}, {tenth * 10:,} jobs", "ms", found)
            for name, found in times.items()
        ),
        *(_dequeue_figure(percent, alone, watched) for percent in (50, 99)),
    ]


# The store


def _fill(server: Server, tenth: int) -> None:
    server.create_queue(_QUEUE)
    with server.client() as client:
        for standing, tenths in TENTHS.items():
            _fill_with(client, standing, tenth * tenths)


def _fill_with(client: Client, standing: str, count: int) -> None:
    if standing in {"pending", "scheduled"}:
        delay = _DAY_MS / 1000 if standing == "scheduled" else None
        jobs = (Nothing(number=number) for number in range(count))
        client.enqueue_many(jobs, batch_size=_FILL_BATCH_SIZE, delay=delay)
        return
    finished = _finished(JobState[standing.upper()], count)
    while batch := list(itertools.islice(finished, _FILL_BATCH_SIZE)):
        client.import_jobs(_QUEUE, batch)


def _finished(state: JobState, count: int) -> Iterator[JobInfo]:
    """Yield jobs that have ended within the last hour."""
    now_ms = time.time_ns() // 1_000_000
    for number in range(count):
        ended_ms = now_ms - number % 3_600_000
        status = _ERRORS[number % len(_ERRORS)].format(number) if state is JobState.FAILED else "done"
        body = encode_body(Nothing(number=number))
        left = 0 if state is JobState.FAILED else 3
        yield JobInfo(f"{_QUEUE}:s1:p1:{number + 1}", state, 4, left, status, ended_ms, ended_ms, ended_ms, None, body)


# The pages


def _pages(server: Server) -> dict[str, str]:
    with server.client() as client:
        failed = client.scan(_QUEUE, JobState.FAILED, limit=50)
        pending = client.scan(_QUEUE, JobState.PENDING, limit=1).jobs[0]
    jobs = f"/jobs?queue={_QUEUE}&state="
    return {
        "overview": "/",
        "queue": f"/queues/{_QUEUE}",
        "pending": f"{jobs}pending",
        "scheduled": f"{jobs}scheduled",
        "succeeded": f"{jobs}succeeded",
        "failed_jobs": f"{jobs}failed",
        "further": f"{jobs}failed&from={failed.continuation}",
        "job": f"/job?id={pending.descriptor}",
        "failures": "/failed",
        "workers": "/workers",
        "server": "/server",
        "charts": f"/charts?queue={_QUEUE}",
    }


def _visit(server: Server, pages: dict[str, str], visits: int) -> dict[str, list[float]]:
    """Return the milliseconds of each visit, page by page."""
    times: dict[str, list[float]] = {name: [] for name in pages}
    with closing(Browser(server.admin_port)) as browser:
        for _ in range(visits):
            for name, path in pages.items():
                times[name].append(browser.time_ms(path))
                time.sleep(TURN_SECONDS)
    return times


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
