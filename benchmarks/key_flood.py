"""How long jobs of 10,000 keys wait while another key has a million jobs, and how long without them.

Each consumer claims one job, runs it for some time, and acknowledges it with its next dequeue. So the flood keeps the
consumers busy, not the processors, and a job waits for what is ahead of it in its queue. The times vary: with equal
ones, all consumers would ask at the same moments, and nobody in between.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from typing import Any, NamedTuple

from benchmarks.callers import PATIENCE_SECONDS, Caller, Callers
from benchmarks.consumer import acks_of, dequeue_arguments
from benchmarks.figures import Figure, percentile
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.client import NewJob
from pinlater.model.keys import JobKey
from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import (
    PinLaterEnqueueRequest,
    PinLaterJob,
    PinLaterJobAckInfo,
    PinLaterJobAckRequest,
    RequestContext,
    arguments_of,
)

FLOOD_JOBS = 1_000_000
KEYS = 10_000
"""Each of them gets one job."""
JOBS_PER_SECOND = 500
CONSUMERS = 20
RUN_SECONDS = 0.01
"""How long a consumer runs a job, on average: 20 consumers could run 2,000 jobs in a second."""
PRODUCERS = 8
SHARDS = 4
"""Of a store with servers; they are on one of them."""

_ENQUEUED_AT_ONCE = 1000
_WAIT_MS = 60_000
_FLOOD_BODY = b"flood"
_CONTEXT = RequestContext(source="bench")


class _Found(NamedTuple):
    """What one run has measured.

    Attributes:
        waits_ms: milliseconds until a consumer had a job, from the moment at which it was to be enqueued.
        seconds: how long it took until all jobs were claimed.
        claimed: how many jobs consumers got meanwhile, those of the flood included.
    """

    waits_ms: list[float]
    seconds: float
    claimed: int

    @property
    def rate(self) -> float:
        """How many jobs consumers got in a second, those of the flood included."""
        return self.claimed / self.seconds


def measure(setting: Setting) -> list[Figure]:
    """Measure the waits alone and beside the flood, and the rate of jobs beside it and without keys."""
    jobs = setting.amount(KEYS // setting.rounds)
    with setting.sharded_server("key-flood", SHARDS) as server:
        alone, flooded, plain = map(server.create_queue, ("alone", "flooded", "plain"))
        _fill(server, flooded, setting.amount(FLOOD_JOBS), JobKey("flood"))
        _fill(server, plain, round(jobs * setting.rounds / JOBS_PER_SECOND * CONSUMERS / RUN_SECONDS) + CONSUMERS)
        found = setting.in_turns(
            lambda: _Run(server, alone).measure(jobs),
            lambda: _Run(server, flooded).measure(jobs),
            lambda: _Run(server, plain, has_keys=False).measure(jobs),
        )
    titles = ("nothing else to do", "one key has a million jobs")
    figures = [
        Figure(f"key_flood_{name}_p{at}", f"a job of another key waits, {title}, p{at}", "ms", _percentiles(rounds, at))
        for name, title, rounds in zip(("alone", "beside"), titles, found, strict=False)
        for at in (50, 99)
    ]
    figures += [
        Figure(
            f"key_flood_{name}_rate", f"jobs of other keys, {title}", "jobs/s", [_rate_of_others(run) for run in runs]
        )
        for name, title, runs in zip(("alone", "beside"), titles, found, strict=False)
    ]
    rates = [[run.rate for run in rounds] for rounds in found]
    return [
        *figures,
        Figure("key_flood_rate", f"  jobs that {CONSUMERS} consumers run meanwhile", "jobs/s", rates[1]),
        Figure("key_flood_plain_rate", "  the same without keys", "jobs/s", rates[2]),
    ]


def _fill(server: Server, queue: str, jobs: int, key: JobKey | None = None) -> None:
    with server.client() as client:
        for start in range(0, jobs, _ENQUEUED_AT_ONCE):
            client.enqueue_jobs(queue, [NewJob(_FLOOD_BODY, key=key)] * min(_ENQUEUED_AT_ONCE, jobs - start))


def _rate_of_others(run: _Found) -> float:
    return len(run.waits_ms) / run.seconds


def _percentiles(runs: list[_Found], percent: float) -> list[float]:
    return [percentile(run.waits_ms, percent) for run in runs]


class _Run:
    """Producers that enqueue a job at each of a number of fixed moments, and consumers that run jobs.

    Args:
        server: has the queue.
        queue: name of the queue.
        has_keys: whether the jobs have keys, each another one.
    """

    def __init__(self, server: Server, queue: str, *, has_keys: bool = True) -> None:
        self._server = server
        self._queue = queue
        self._has_keys = has_keys
        self._codec = Codec()
        self._resting: list[tuple[float, int, Caller, list[PinLaterJobAckInfo]]] = []
        self._order = itertools.count()
        self._random = random.Random(1)
        self._producers: list[Caller] = []
        self._methods: dict[Caller, str] = {}
        self._waits_ms: list[float] = []
        self._claimed = 0

    def measure(self, jobs: int) -> _Found:
        """Enqueue jobs, and run those that are due, until these have been claimed; if without keys, until the last."""
        with Callers(self._server, CONSUMERS + PRODUCERS) as callers:
            consumers, self._producers = list(callers)[:CONSUMERS], list(callers)[CONSUMERS:]
            started = time.perf_counter()
            for consumer in consumers:
                self._rest(consumer, started, [])
            sent = 0
            while sent < jobs or (self._has_keys and len(self._waits_ms) < jobs):
                now = time.perf_counter()
                while self._producers and sent < jobs and (due := started + sent / JOBS_PER_SECOND) <= now:
                    self._enqueue(due)
                    sent += 1
                self._dequeue(now)
                moments = [started + sent / JOBS_PER_SECOND] if self._producers and sent < jobs else []
                moments += [self._resting[0][0]] if self._resting else []
                if callers.has_answers(max(min(moments, default=now + PATIENCE_SECONDS) - time.perf_counter(), 0.0)):
                    self._take_answers(callers)
                elif not moments:
                    raise ProgramFailed(f"{jobs} jobs were enqueued, but {len(self._waits_ms)} were handed out")
            seconds, claimed = time.perf_counter() - started, self._claimed
            self._acknowledge_all(callers)
        return _Found(self._waits_ms, seconds, claimed)

    def _rest(self, consumer: Caller, until: float, acks: list[PinLaterJobAckInfo]) -> None:
        heapq.heappush(self._resting, (until, next(self._order), consumer, acks))

    def _send(self, caller: Caller, method: str, arguments: Any) -> None:
        self._methods[caller] = method
        caller.send(self._codec.encode_call(method, 1, arguments))

    def _enqueue(self, due: float) -> None:
        job = PinLaterJob(repr(due).encode(), key=f"k{next(self._order)}" if self._has_keys else None)
        request = PinLaterEnqueueRequest(queueName=self._queue, jobs=[job])
        self._send(self._producers.pop(), "enqueueJobs", arguments_of("enqueueJobs")(_CONTEXT, request))

    def _dequeue(self, now: float) -> None:
        """Send the dequeues of the consumers whose jobs have ended."""
        while self._resting and self._resting[0][0] <= now:
            _, _, consumer, acks = heapq.heappop(self._resting)
            self._send(consumer, "dequeueJobs", dequeue_arguments(self._queue, 1, acks, wait_ms=_WAIT_MS))

    def _take_answers(self, callers: Callers) -> None:
        for caller, answer in callers.answers():
            method = self._methods.pop(caller)
            reply = self._codec.decode_reply(answer, method, 1)
            if method == "enqueueJobs":
                self._producers.append(caller)
            elif method == "dequeueJobs":
                now = time.perf_counter()
                acks = acks_of(reply)
                self._claimed += len(acks)
                self._waits_ms += [
                    (now - float(body)) * 1000 for body in (reply.jobs or {}).values() if body != _FLOOD_BODY
                ]
                self._rest(caller, now + (self._random.uniform(0, 2 * RUN_SECONDS) if acks else 0.0), acks)

    def _acknowledge_all(self, callers: Callers) -> None:
        """Acknowledge the jobs that consumers have when the measurement ends."""
        for _, _, consumer, acks in self._resting:
            if acks:
                request = PinLaterJobAckRequest(self._queue, acks)
                self._send(consumer, "ackDequeuedJobs", arguments_of("ackDequeuedJobs")(_CONTEXT, request))
        while "ackDequeuedJobs" in self._methods.values():
            self._take_answers(callers)
