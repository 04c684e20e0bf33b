"""Whether a dequeue costs more when many jobs are waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from benchmarks.consumer import drain
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from benchmarks.stores import Bare
from pinlater.jobs.body_codec import encode_body

SHALLOW = 10_000
DEEP = 1_000_000
DELAY_SECONDS = 30 * 24 * 3600
BATCH_SIZE = 100
DRAINED = 5_000
PASSES = 6
FILL_BATCH_SIZE = 1_000


class _Pair(NamedTuple):
    """A server and a bare store with the same jobs."""

    server: Server
    bare: Bare


def measure(setting: Setting) -> list[Figure]:
    """Measure the cost of a job with few waiting, and with many waiting and as many scheduled for later."""
    drained = setting.amount(DRAINED, step=BATCH_SIZE)
    shallow_jobs, deep_jobs = setting.amount(SHALLOW, step=2 * BATCH_SIZE), setting.amount(DEEP, step=2 * BATCH_SIZE)
    with ExitStack() as stack:
        shallow = stack.enter_context(_pair(setting, "shallow", shallow_jobs, scheduled=0))
        deep = stack.enter_context(_pair(setting, "deep", deep_jobs, scheduled=deep_jobs))
        bare_shallow, ours_shallow, bare_deep, ours_deep = setting.in_turns(
            lambda: _bare_us(shallow.bare, drained),
            lambda: _server_us(shallow.server, drained),
            lambda: _bare_us(deep.bare, drained),
            lambda: _server_us(deep.server, drained),
        )
    return [
        Figure("depth_shallow", f"dequeue and ack, {shallow_jobs:,} waiting", "us/job", ours_shallow, bare_shallow),
        Figure(
            "depth_deep",
            f"dequeue and ack, {deep_jobs:,} waiting and as many scheduled",
            "us/job",
            ours_deep,
            bare_deep,
        ),
        Figure(
            "depth_ratio",
            "  the second as a multiple of the first",
            "times",
            _ratios(ours_deep, ours_shallow),
            _ratios(bare_deep, bare_shallow),
        ),
    ]


@contextmanager
def _pair(setting: Setting, name: str, waiting: int, *, scheduled: int) -> Iterator[_Pair]:
    with setting.bare(name) as bare, setting.server(name) as server:
        server.create_queue("nothing")
        for jobs, delay_seconds in ((waiting, 0), (scheduled, DELAY_SECONDS)):
            _fill_bare(bare, jobs, delay_seconds)
            _fill_server(server, jobs, delay_seconds)
        yield _Pair(server, bare)


def _fill_bare(bare: Bare, jobs: int, delay_seconds: int = 0) -> None:
    body = encode_body(Nothing(number=1))
    for first in range(0, jobs, FILL_BATCH_SIZE):
        bare.insert([body] * min(FILL_BATCH_SIZE, jobs - first), delay_ms=delay_seconds * 1000)


def _fill_server(server: Server, jobs: int, delay_seconds: int = 0) -> None:
    delay = delay_seconds or None
    with server.client() as client:
        client.enqueue_many((Nothing(number=number) for number in range(jobs)), batch_size=FILL_BATCH_SIZE, delay=delay)


def _bare_us(bare: Bare, jobs: int) -> float:
    return _us_per_job(jobs, lambda: bare.drain(BATCH_SIZE, most=jobs), lambda: _fill_bare(bare, jobs))


def _server_us(server: Server, jobs: int) -> float:
    with server.connection() as connection:
        return _us_per_job(
            jobs,
            lambda: drain(connection, "nothing", BATCH_SIZE, most=jobs),
            lambda: _fill_server(server, jobs),
        )


def _us_per_job(jobs: int, drain_some: Callable[[], int], fill_up: Callable[[], None]) -> float:
    """Return the cost over several passes, refilling in between: a single pass may or may not hit a checkpoint."""
    seconds = 0.0
    for _ in range(PASSES):
        started = time.perf_counter()
        done = drain_some()
        seconds += time.perf_counter() - started
        if done != jobs:
            raise ProgramFailed(f"{jobs} jobs were to be had, but {done} came")
        fill_up()
    return seconds / (PASSES * jobs) * 1e6


def _ratios(deep: list[float], shallow: list[float]) -> list[float]:
    return [one / other for one, other in zip(deep, shallow, strict=True)]
