"""From an enqueue to the start of the job, when nothing else goes on."""

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
PAUSE_SECONDS = 0.005
"""Long enough for everything to be done with the job before; after longer pauses, one measures how long the
machine takes to wake: with 20 ms all figures here double, the bare commit's, too."""


def measure(setting: Setting) -> list[Figure]:
    """Measure until a parked dequeue has the job, and until a parked worker runs it; beside one commit of a row."""
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
        with setting.worker(server, processes=1) as worker:
            _to_worker(client, worker, listener, -1)  # until it runs and waits
            bare_rounds, lean_rounds, worker_rounds = setting.in_turns(
                lambda: _repeat(jobs, lambda _: _bare_commit(store.insert, body)),
                lambda: _repeat(jobs, lambda _: _to_parked_dequeue(producer, consumer, lean_queue, body)),
                lambda: _repeat(jobs, lambda number: _to_worker(client, worker, listener, number)),
            )
    return [
        _figure("latency_p50", "enqueue to start of the job, idle worker, p50", worker_rounds, bare_rounds, 50),
        _figure("latency_p99", "enqueue to start of the job, idle worker, p99", worker_rounds, bare_rounds, 99),
        _figure("latency_raw_p50", "enqueue to a parked plain consumer, p50", lean_rounds, bare_rounds, 50),
        _figure("latency_raw_p99", "enqueue to a parked plain consumer, p99", lean_rounds, bare_rounds, 99),
    ]


def _figure(name: str, title: str, rounds: list[list[float]], bare_rounds: list[list[float]], percent: float) -> Figure:
    """Return a percentile over all rounds, for which there is enough only in all of them together."""
    ours = percentile([ms for round_ in rounds for ms in round_], percent)
    bare = percentile([ms for round_ in bare_rounds for ms in round_], percent)
    return Figure(name, title, "ms", [ours], [bare])


def _repeat(jobs: int, measure_one: Callable[[int], float]) -> list[float]:
    """Return milliseconds; the pauses let everything fall idle in between."""
    found = []
    for number in range(jobs):
        time.sleep(PAUSE_SECONDS)
        found.append(measure_one(number) * 1000)
    return found


def _bare_commit(insert: Callable[[list[bytes]], None], body: bytes) -> float:
    started = time.monotonic()
    insert([body])
    return time.monotonic() - started


def _to_parked_dequeue(producer: Connection, consumer: Connection, queue: str, body: bytes) -> float:
    send_dequeue(consumer, queue, 1, wait_ms=10_000)
    time.sleep(PAUSE_SECONDS / 4)  # until it is parked
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
