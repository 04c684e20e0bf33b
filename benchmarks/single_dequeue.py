"""Many consumers, each claiming one job per call; the call carries the ack of the previous job."""

from __future__ import annotations

import time

from benchmarks.callers import PATIENCE_SECONDS, Callers
from benchmarks.consumer import acks_of, dequeue_arguments
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import JobState
from pinlater.jobs.body_codec import encode_body
from pinlater.protocol.codec import Codec

JOBS = 40_000
CONSUMERS = 64

_METHOD = "dequeueJobs"


def measure(setting: Setting) -> list[Figure]:
    """Measure the rate, and the processor time of both sides per job, beside a loop of one claim and its ack."""
    jobs = setting.amount(JOBS // setting.rounds, step=CONSUMERS)
    cpu_us: list[float] = []
    own_cpu_us: list[float] = []
    with setting.bare() as store, setting.server() as server:

        def bare() -> float:
            few = jobs // 4  # fewer are enough to know the rate, since nothing runs beside it
            store.insert([encode_body(Nothing(number=1))] * few)
            started = time.perf_counter()
            store.drain(1, most=few)
            return few / (time.perf_counter() - started)

        def ours() -> float:
            queue = _filled(server, jobs)
            own_cpu, cpu, started = time.process_time(), server.cpu_seconds(), time.perf_counter()
            _drain(server, queue, jobs)
            rate = jobs / (time.perf_counter() - started)
            cpu_us.append((server.cpu_seconds() - cpu) / jobs * 1e6)
            own_cpu_us.append((time.process_time() - own_cpu) / jobs * 1e6)
            _check(server, queue, jobs)
            return rate

        bare_rates, rates = setting.in_turns(bare, ours)
    title = f"dequeue with the ack of the job before, {CONSUMERS} consumers, 1 job a call"
    return [
        Figure("single_dequeue", title, "jobs/s", rates, bare_rates),
        Figure("single_dequeue_cpu", "  processor time of the server", "us/job", cpu_us),
        Figure("single_dequeue_consumers_cpu", "  processor time of the consumers", "us/job", own_cpu_us),
    ]


def _filled(server: Server, jobs: int) -> str:
    """Create a queue with ``jobs`` jobs; return its name."""
    queue = server.create_queue(f"nothing_{time.monotonic_ns()}")
    with server.client() as client:
        client.enqueue_many((Nothing(number=number) for number in range(jobs)), queue=queue)
    return queue


def _drain(server: Server, queue: str, jobs: int) -> None:
    """Dequeue and ack on all connections at once; a consumer is done when nothing is left to ack or to claim."""
    codec = Codec()
    first = codec.encode_call(_METHOD, 1, dequeue_arguments(queue, 1))
    claimed = 0
    until = time.monotonic() + PATIENCE_SECONDS
    with Callers(server, CONSUMERS) as callers:
        for caller in callers:
            caller.send(first)
        working = CONSUMERS
        while working:
            for caller, payload in callers.answers():
                acks = acks_of(codec.decode_reply(payload, _METHOD, 1))
                claimed += len(acks)
                if acks:
                    caller.send(codec.encode_call(_METHOD, 1, dequeue_arguments(queue, 1, acks)))
                elif claimed < jobs and time.monotonic() < until:  # others have claimed what it would have got
                    caller.send(first)
                else:
                    working -= 1


def _check(server: Server, queue: str, jobs: int) -> None:
    with server.client() as client:
        done = client.count(queue, JobState.SUCCEEDED)
    if done != jobs:
        raise ProgramFailed(f"{jobs} jobs were enqueued, but {done} were done")
