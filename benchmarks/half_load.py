"""How long an enqueue takes while producers offer half of what the server can take, compared with an idle server.

Calls are due at fixed moments, however long the answers take, and are timed from these moments, so that the wait for a
free connection counts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.callers import Callers, TimedCall, enqueue_frame
from benchmarks.figures import Figure, percentile
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import JobState

PRODUCERS = 32
FULL_CALLS = 40_000
HALF_CALLS = 60_000
IDLE_CALLS = 900
PAUSES = {"": 0.005, "_20ms": 0.02}
"""Suffix of the figures' names -> seconds between two calls to an idle server; as in ``latency``."""

_FULL, _HALF, _IDLE = _QUEUES = ("full", "half", "idle")
"""A queue for each load, so that each count stays below the server's ``COUNT_LIMIT``."""


def measure(setting: Setting) -> list[Figure]:
    """Measure the full rate, then calls at half of it, then calls with pauses."""
    with setting.server() as server, Callers(server, PRODUCERS) as callers:
        for queue in _QUEUES:
            server.create_queue(queue)
        load = _Load(setting, callers)
        full, half, *idle = setting.in_turns(
            load.full, load.half, *(lambda pause=pause: load.idle(pause) for pause in PAUSES.values())
        )
        _check(server, load.calls)
    half_figures = [
        _figure(f"half_load_p{percent}", f"enqueue, at half of that rate, p{percent}", half, percent)
        for percent in (50, 99)
    ]
    return [
        Figure("half_load_full", f"enqueue, {PRODUCERS} producers, 1 job a call, all they can", "calls/s", full),
        *half_figures,
        Figure("half_load_late", "  of it until it was sent, p99", "ms", [percentile(load.late_ms, 99)]),
        *_idle_figures(idle, half_figures[-1].value),
    ]


def _idle_figures(idle: Sequence[list[list[float]]], half_p99_ms: float) -> list[Figure]:
    figures = []
    for (ending, pause), rounds in zip(PAUSES.items(), idle, strict=True):
        title = f"enqueue, one each {pause * 1000:.0f} ms"
        median, high = (
            _figure(f"half_load_idle{ending}_p{percent}", f"{title}, p{percent}", rounds, percent)
            for percent in (50, 99)
        )
        times = "  p99 at half of the full rate as a multiple of it"
        figures += [median, high, Figure(f"half_load_ratio{ending}", times, "times", [half_p99_ms / high.value])]
    return figures


def _figure(name: str, title: str, rounds: list[list[float]], percent: int) -> Figure:
    """Return a percentile over all rounds; a single one has too few calls."""
    return Figure(name, title, "ms", [percentile([ms for round_ in rounds for ms in round_], percent)])


class _Load:
    """Calls from this process.

    Attributes:
        calls: number of answered calls, by queue.
        late_ms: milliseconds by which each call at half of the rate was sent late.
    """

    def __init__(self, setting: Setting, callers: Callers) -> None:
        def amount(full: int) -> int:
            return setting.amount(full // setting.rounds, step=PRODUCERS)

        self._full_calls, self._half_calls = amount(FULL_CALLS), amount(HALF_CALLS)
        self._idle_calls = setting.amount(IDLE_CALLS // setting.rounds)
        self._callers = callers
        self._rate = 0.0
        self.calls = Counter[str]()
        self.late_ms: list[float] = []

    def full(self) -> float:
        """Return calls per second when each producer waits only for its answers."""
        started = time.perf_counter()
        self._callers.repeat(enqueue_frame(_FULL), self._full_calls)
        self.calls[_FULL] += self._full_calls
        self._rate = self._full_calls / (time.perf_counter() - started)
        return self._rate

    def half(self) -> list[float]:
        """Return the milliseconds of calls at half of the last full rate."""
        found = self._offer(_HALF, self._half_calls, 2 / self._rate)
        self.late_ms += (call.late_ms for call in found)
        return [call.ms for call in found]

    def idle(self, pause: float) -> list[float]:
        """Return the milliseconds of single calls."""
        return [call.ms for call in self._offer(_IDLE, self._idle_calls, pause)]

    def _offer(self, queue: str, calls: int, interval: float) -> list[TimedCall]:
        """Make calls at fixed moments; return how long they took."""
        frame = enqueue_frame(queue)
        found = self._callers.make_in_time(calls, interval, lambda _: frame)
        self.calls[queue] += calls
        return found


def _check(server: Server, calls: Mapping[str, int]) -> None:
    """Check that the job of every answered enqueue is stored."""
    with server.client() as client:
        stored = {queue: client.count(queue, JobState.PENDING) for queue in calls}
    if stored != calls:
        raise ProgramFailed(f"enqueues that were answered: {dict(calls)}, but jobs that are stored: {stored}")
