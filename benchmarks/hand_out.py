"""How long a dequeue takes at a fixed rate: consumers that claim a few jobs a call, from a queue with a backlog.

Each call carries the acks of the jobs before, and is timed from the moment at which it was due, so that the wait for a
free connection counts.
"""

from __future__ import annotations

import time

from benchmarks.callers import Caller, Callers, TimedCall
from benchmarks.consumer import acks_of, dequeue_arguments
from benchmarks.figures import Figure, percentile
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterJobAckInfo

JOBS_PER_SECOND = 5_000
BATCH_SIZE = 10
SECONDS = 20.0
CONSUMERS = 32
SHARDS = 8
"""Of a store with servers; they are on one of them."""

_METHOD = "dequeueJobs"


def measure(setting: Setting) -> list[Figure]:
    """Measure the milliseconds of a dequeue, and the server's share of a core meanwhile."""
    calls = setting.amount(int(JOBS_PER_SECOND / BATCH_SIZE * SECONDS) // setting.rounds)
    found: list[TimedCall] = []
    cpu: list[float] = []
    with setting.sharded_server("hand-out", SHARDS) as server, Callers(server, CONSUMERS) as callers:
        for _ in range(setting.rounds):
            consumers = _Consumers(_filled(server, calls * BATCH_SIZE))
            before, started = server.cpu_seconds(), time.perf_counter()
            found += callers.make_in_time(calls, BATCH_SIZE / JOBS_PER_SECOND, consumers.next_call, consumers.note)
            cpu.append((server.cpu_seconds() - before) / (time.perf_counter() - started) * 100)
            if consumers.jobs != calls * BATCH_SIZE:
                raise ProgramFailed(f"{calls * BATCH_SIZE} jobs were enqueued, but {consumers.jobs} were handed out")
    shards = f", {SHARDS} shards" if setting.stores.is_shared else ""
    title = f"dequeue at {JOBS_PER_SECOND} jobs/s, {BATCH_SIZE} jobs and {BATCH_SIZE} acks a call{shards}"
    times = [call.ms for call in found]
    return [
        *(Figure(f"hand_out_p{at}", f"{title}, p{at}", "ms", [percentile(times, at)]) for at in (50, 99)),
        Figure(
            "hand_out_late", "  of it until it was sent, p99", "ms", [percentile([call.late_ms for call in found], 99)]
        ),
        Figure("hand_out_cpu", "  share of a core of the server", "%", cpu),
    ]


def _filled(server: Server, jobs: int) -> str:
    """Create a queue with ``jobs`` jobs; return its name."""
    queue = server.create_queue(f"nothing_{time.monotonic_ns()}")
    with server.client() as client:
        client.enqueue_many((Nothing(number=number) for number in range(jobs)), queue=queue)
    return queue


class _Consumers:
    """The calls of consumers, which acknowledge with each call what the one before has claimed.

    Attributes:
        jobs: number of jobs that were handed out.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._codec = Codec()
        self._acks: dict[Caller, list[PinLaterJobAckInfo]] = {}
        self.jobs = 0

    def next_call(self, caller: Caller) -> bytes:
        """Return the next call of a consumer."""
        arguments = dequeue_arguments(self._queue, BATCH_SIZE, self._acks.pop(caller, ()), wait_ms=0)
        return self._codec.encode_call(_METHOD, 1, arguments)

    def note(self, caller: Caller, answer: bytes) -> None:
        """Take the jobs that a consumer got."""
        self._acks[caller] = acks_of(self._codec.decode_reply(answer, _METHOD, 1))
        self.jobs += len(self._acks[caller])
