"""Many producers, each storing one job per call and waiting for the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import uvloop

from benchmarks.callers import Callers, enqueue_frame
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import AsyncClient, JobState
from pinlater.jobs.body_codec import encode_body

CALLS = 40_000
PRODUCERS = 16
RAW_PRODUCERS = (PRODUCERS, 32)
"""Numbers of producers that do next to nothing, and are all in one process."""


def measure(setting: Setting) -> list[Figure]:
    """Measure the rate with our client, and with producers that do next to nothing, of which there can be more."""
    calls = setting.amount(CALLS // setting.rounds, step=max(RAW_PRODUCERS))
    cpu_us, own_cpu_us = ({producers: list[float]() for producers in RAW_PRODUCERS} for _ in range(2))
    with setting.bare() as store, setting.server() as server:

        def bare() -> float:
            body = encode_body(Nothing(number=1))
            started = time.perf_counter()
            for _ in range(calls // 4):  # fewer are enough to know the rate, since nothing runs beside it
                store.insert([body])
            return calls // 4 / (time.perf_counter() - started)

        def ours() -> float:
            return _checked(server, calls, _with_our_client)

        def raw(producers: int) -> float:
            own_cpu, cpu = time.process_time(), server.cpu_seconds()
            rate = _checked(server, calls, lambda server, queue, calls: _with_sockets(server, queue, calls, producers))
            cpu_us[producers].append((server.cpu_seconds() - cpu) / calls * 1e6)
            own_cpu_us[producers].append((time.process_time() - own_cpu) / calls * 1e6)
            return rate

        bare_rates, rates, *raw_rates = setting.in_turns(
            bare, ours, *(lambda producers=producers: raw(producers) for producers in RAW_PRODUCERS)
        )
    figures = [Figure("single_enqueue", f"{_title(PRODUCERS)}, AsyncClient", "calls/s", rates, bare_rates)]
    for producers, found in zip(RAW_PRODUCERS, raw_rates, strict=True):
        name = "single_enqueue_raw" + f"_{producers}" * (producers != PRODUCERS)
        figures += [
            Figure(name, f"{_title(producers)}, plain sockets", "calls/s", found, bare_rates),
            Figure(f"{name}_cpu", "  processor time of the server", "us/call", cpu_us[producers]),
            Figure(f"{name}_producers_cpu", "  processor time of the producers", "us/call", own_cpu_us[producers]),
        ]
    return figures


def _title(producers: int) -> str:
    return f"enqueue, {producers} producers, 1 job a call"


def _checked(server: Server, calls: int, enqueue: Callable[[Server, str, int], None]) -> float:
    """Return the rate; check that the job of every answer is stored."""
    queue = server.create_queue(f"nothing_{time.monotonic_ns()}")
    started = time.perf_counter()
    enqueue(server, queue, calls)
    rate = calls / (time.perf_counter() - started)
    with server.client() as client:
        stored = client.count(queue, JobState.PENDING)
    if stored != calls:
        raise ProgramFailed(f"{calls} enqueues were answered, but {stored} jobs are stored")
    return rate


def _with_our_client(server: Server, queue: str, calls: int) -> None:
    async def produce(client: AsyncClient, first: int) -> None:
        for number in range(first, calls, PRODUCERS):
            await client.enqueue(Nothing(number=number), queue=queue)

    async def produce_all() -> None:
        async with AsyncClient(str(server.address), connections=PRODUCERS) as client, asyncio.TaskGroup() as tasks:
            for first in range(PRODUCERS):
                tasks.create_task(produce(client, first))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(produce_all())


def _with_sockets(server: Server, queue: str, calls: int, producers: int) -> None:
    with Callers(server, producers) as callers:
        callers.repeat(enqueue_frame(queue), calls)
