"""Load generator behind ``pinlater load``: concurrent queries on an event loop, counted and timed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from dataclasses import dataclass

import click

from pinlater.cli.command import PATIENCE_SECONDS, Session
from pinlater.cli.latencies import Latencies
from pinlater.cli.output import print_fields, print_json
from pinlater.client.async_client import AsyncClient
from pinlater.errors import PinLaterError
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob

_MAX_FAILURES_IN_A_ROW = 10


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of ``pinlater load``."""

    mode: str
    queue: str
    num_queries: int
    batch_size: int
    concurrency: int
    dequeue_success_percent: int
    priority: int
    body_size: int | None


def run(session: Session, options: LoadOptions) -> int:
    """Generate load, print the result, and return the exit status."""
    load = _Load(session, options)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(load.run())
    load.print_summary(as_json=session.as_json)
    return 1 if load.failures else 0


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop


class _Load:
    """One run of the load generator; its workers share the number of remaining queries."""

    def __init__(self, session: Session, options: LoadOptions) -> None:
        self._session = session
        self._options = options
        self._left = options.num_queries
        self._latencies = Latencies()
        self._jobs = 0
        self._failures_in_a_row = 0
        self._seconds = 0.0
        self.failures = 0

    async def run(self) -> None:
        """Run all workers until they end, or until ^C."""
        options = self._options
        client = AsyncClient(
            self._session.server_set(),
            timeout=self._session.timeout,
            patience=PATIENCE_SECONDS,
            connections=options.concurrency,
        )
        async with client:
            started = time.monotonic()
            workers = [asyncio.create_task(self._work(client)) for _ in range(options.concurrency)]
            reporter = asyncio.create_task(self._report())
            _on_interrupt(workers)
            try:
                await _first_failure(workers)
            finally:
                self._seconds = time.monotonic() - started
                reporter.cancel()
                await asyncio.gather(*workers, reporter, return_exceptions=True)

    async def _work(self, client: AsyncClient) -> None:
        query = self._enqueue if self._options.mode == "enqueue" else self._dequeue
        while self._left:
            self._left -= self._left > 0
            started = time.perf_counter()
            try:
                number = await query(client)
            except PinLaterError as error:
                self._count_failure(error)
                continue
            self._failures_in_a_row = 0
            self._latencies.add(time.perf_counter() - started)
            self._jobs += number

    def _count_failure(self, error: PinLaterError) -> None:
        """Count a failed query; raise its error if the server has never answered, or fails repeatedly."""
        self.failures += 1
        self._failures_in_a_row += 1
        if not self._latencies.count or self._failures_in_a_row > _MAX_FAILURES_IN_A_ROW:
            raise error
        click.echo(f"pinlater: a query failed: {error}", err=True)

    async def _enqueue(self, client: AsyncClient) -> int:
        options = self._options
        jobs = [NewJob(_body(options.body_size), options.priority) for _ in range(options.batch_size)]
        return len(await client.enqueue_jobs(options.queue, jobs))

    async def _dequeue(self, client: AsyncClient) -> int:
        options = self._options
        acks: tuple[list[Ack], list[Ack]] = ([], [])
        for job in await client.dequeue_jobs(options.queue, options.batch_size):
            failed = random.randrange(100) >= options.dequeue_success_percent  # noqa: S311 - no secret
            acks[failed].append(Ack(job.descriptor, job.claim))
        number = len(acks[0]) + len(acks[1])
        if number:
            await client.ack(options.queue, *acks)
        return number

    async def _report(self) -> None:
        """Print rates and latency every second."""
        queries, jobs, seconds = 0, 0, 0.0
        while True:
            await asyncio.sleep(1)
            now = self._latencies.count, self._jobs, self._latencies.total
            average = (now[2] - seconds) / (now[0] - queries) * 1000 if now[0] > queries else 0.0
            click.echo(f"QPS: {now[0] - queries}  Jobs/s: {now[1] - jobs}  Avg Latency (ms): {average:.5f}", err=True)
            queries, jobs, seconds = now

    def print_summary(self, *, as_json: bool) -> None:
        """Print totals and latencies."""
        latencies = self._latencies
        seconds = max(self._seconds, 1e-9)
        figures = {
            "queries": latencies.count,
            "failed": self.failures,
            "jobs": self._jobs,
            "seconds": round(self._seconds, 3),
            "queries_per_second": round(latencies.count / seconds),
            "jobs_per_second": round(self._jobs / seconds),
            **{f"latency_ms_p{share}": round(latencies.quantile(share / 100) * 1000, 3) for share in (50, 90, 99)},
            "latency_ms_max": round(latencies.largest * 1000, 3),
        }
        if as_json:
            print_json(figures)
        else:
            print_fields((name.replace("_", " "), f"{figure:,}") for name, figure in figures.items())


def _body(size: int | None) -> bytes:
    if size is None:
        return b"task_%d" % random.randrange(1 << 31)  # noqa: S311 - no secret
    return os.urandom(size)


def _on_interrupt(workers: list[asyncio.Task[None]]) -> None:
    """Cancel the workers on ^C and TERM, so that the totals are still printed."""

    def stop() -> None:
        for worker in workers:
            worker.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(number, stop)


async def _first_failure(workers: list[asyncio.Task[None]]) -> None:
    """Wait for all workers; after an error, cancel the others and raise it."""
    done, others = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    for worker in others:
        worker.cancel()
    for worker in done:
        if not worker.cancelled():
            worker.result()
