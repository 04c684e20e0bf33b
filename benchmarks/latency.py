"""Time from an enqueue to the start of the job, on an otherwise idle system."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from benchmarks.consumer import acks_of, send_dequeue, send_enqueue
from benchmarks.figures import Figure, percentile
from benchmarks.jobs import Tell
from benchmarks.listener import PATIENCE_SECONDS, listening, next_start
from benchmarks.programs import ProgramFailed, Worker
from benchmarks.setting import Setting
from pinlater import Client
from pinlater.client.connection import Connection
from pinlater.jobs.body_codec import encode_body

JOBS = 300
PARK_SECONDS = 0.00125
"""Time after which a dequeue that was sent is parked."""

PAUSES = {"": 0.005, "_20ms": 0.02}
"""Suffix of the figures' names -> seconds between two jobs.

5 ms are long enough to finish everything about the job before. 20 ms also measure how long the machine takes to wake
up, as a mostly idle one does: all figures double, including those of the bare commit.
"""


def measure(setting: Setting) -> list[Figure]:
    """Measure until a parked dequeue has the job, and until an idle worker runs it, beside one commit of a row."""
    jobs = setting.amount(JOBS // setting.rounds)
    with (
        setting.bare() as store,
        setting.server() as server,
        server.client() as client,
        server.connection() as consumer,
        server.connection() as producer,
        listening(setting.folder / "started") as listener,
    ):
        lean_queue = server.create_queue("lean")
        server.create_queue("tell")
        body = encode_body(Tell(number=1, listener="/"))
        figures: list[Figure] = []
        with setting.worker(server, processes=1) as worker:
            _to_worker(client, worker, listener, -1)  # until it runs and waits
            for ending, pause in PAUSES.items():
                rounds = setting.in_turns(
                    lambda pause=pause: _repeat(jobs, pause, lambda _: _bare_commit(store.insert, body)),
                    lambda pause=pause: _repeat(
                        jobs, pause, lambda _: to_parked_dequeue(producer, consumer, lean_queue, body)
                    ),
                    lambda pause=pause: _repeat(
                        jobs, pause, lambda number: _to_worker(client, worker, listener, number)
                    ),
                )
                figures += _figures(ending, pause, *rounds)
    return figures


def _figures(
    ending: str, pause: float, bare: list[list[float]], lean: list[list[float]], worker: list[list[float]]
) -> list[Figure]:
    """Return percentiles over all rounds; a single one has too few jobs."""
    bare_ms = [ms for round_ in bare for ms in round_]
    found = []
    for name, title, rounds in (
        ("latency", "enqueue to start of the job, idle worker", worker),
        ("latency_raw", "enqueue to a parked plain consumer", lean),
    ):
        ours_ms = [ms for round_ in rounds for ms in round_]
        for percent in (50, 99):
            ours, bare_one = percentile(ours_ms, percent), percentile(bare_ms, percent)
            title_of_one = f"{title}, each {pause * 1000:.0f} ms, p{percent}"
            found.append(Figure(f"{name}{ending}_p{percent}", title_of_one, "ms", [ours], [bare_one]))
    return found


def _repeat(jobs: int, pause: float, measure_one: Callable[[int], float]) -> list[float]:
    """Return the milliseconds of each job; everything goes idle in the pauses."""
    found = []
    for number in range(jobs):
        time.sleep(pause)
        found.append(measure_one(number) * 1000)
    return found


def _bare_commit(insert: Callable[[list[bytes]], None], body: bytes) -> float:
    started = time.monotonic()
    insert([body])
    return time.monotonic() - started


def to_parked_dequeue(producer: Connection, consumer: Connection, queue: str, body: bytes) -> float:
    """Return the seconds from the enqueue of a job until a parked dequeue has it; then acknowledge it."""
    send_dequeue(consumer, queue, 1, wait_ms=10_000)
    time.sleep(PARK_SECONDS)  # until it is parked
    started = time.monotonic()
    send_enqueue(producer, queue, body)
    reply = consumer.receive(PATIENCE_SECONDS)
    seconds = time.monotonic() - started
    producer.receive(PATIENCE_SECONDS)
    send_dequeue(consumer, queue, 1, acks_of(reply))
    if acks_of(consumer.receive(PATIENCE_SECONDS)):
        raise ProgramFailed("one job was enqueued, but two were handed out")
    return seconds


def _to_worker(client: Client, worker: Worker, listener: socket.socket, number: int) -> float:
    job = Tell(number=number, listener=listener.getsockname())
    enqueued = time.monotonic()
    client.enqueue(job)
    told, started = next_start(listener, worker)
    if told != number:
        raise ProgramFailed(f"job {told} ran when job {number} was enqueued")
    return started - enqueued
