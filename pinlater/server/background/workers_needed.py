"""Compute how many workers each queue with a latency target needs, for autoscalers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.protocol.codec import Codec
from pinlater.protocol.conversion.workers import may_have_loads
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import PinLaterWorker
from pinlater.server.backends.records import KeptReport
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.recent import RecentRates

log = logging.getLogger(__name__)

_GROWTH_SECONDS = 60.0
"""How far back the growth of a backlog is measured: as far as the loads that workers report."""
_ROUNDING = 1e-6


class Need(NamedTuple):
    """The figures from which the number of workers for a queue is computed.

    Attributes:
        target_seconds: time within which a due job should start.
        run_seconds: how long a run takes on average; None: not known yet.
        runs_per_second: how many runs end per second.
        running: jobs that run now.
        backlog: jobs that are due and wait.
        growth_per_second: by how much the backlog grows; negative: it shrinks.
    """

    target_seconds: float
    run_seconds: float | None
    runs_per_second: float
    running: int
    backlog: float
    growth_per_second: float

    def slots(self) -> int:
        """Return how many worker slots are needed to start jobs within the target; each runs one job at a time.

        ``arrivals * run time`` slots keep up with the jobs that become due (Little's law); arrivals are the runs plus
        the growth of the backlog, so retries and scheduled jobs count when they are due, whichever server they came
        to. If more of the running jobs will last beyond the target, their slots count instead.
        ``backlog * run time / target`` more slots work off the backlog within the target; where runs take longer than
        the target, each job of the backlog needs a slot. With that many slots, a new job waits for at most
        ``backlog * run time / slots``, which is less than the target.

        The result is at least the number of running jobs, so that no busy slot is scaled away, and at most one slot
        for each job that runs, waits, or comes within the target. While no run time is known, one slot is tried.
        """
        if self.run_seconds is None:
            return max(self.running, min(math.ceil(self.backlog), 1))
        arrivals = max(self.runs_per_second + self.growth_per_second, 0.0)
        targets_a_run = self.run_seconds / self.target_seconds
        lasting = self.running * (1 - 1 / max(targets_a_run, 1.0))
        keeping_up = max(arrivals * self.run_seconds, lasting)
        catching_up = self.backlog * min(targets_a_run, 1.0)
        most = self.running + self.backlog + arrivals * self.target_seconds
        return max(self.running, math.ceil(min(keeping_up + catching_up, most) - _ROUNDING))


@dataclass(slots=True)
class QueueWork:
    """What all workers report of a queue, added up.

    Attributes:
        target_seconds: the smallest target that a worker reports.
        slots: worker slots, without those of workers that are draining.
        running: jobs that run now.
        runs, busy_seconds: runs that ended recently, and how long slots were busy.
        window_seconds: the longest period that a worker's figures cover; younger workers ran nothing before.
    """

    target_seconds: float = math.inf
    slots: int = 0
    running: int = 0
    runs: int = 0
    busy_seconds: float = 0.0
    window_seconds: float = 0.0

    @property
    def runs_per_second(self) -> float:
        """How many runs ended per second."""
        return self.runs / self.window_seconds if self.window_seconds else 0.0

    @property
    def run_seconds(self) -> float | None:
        """Average duration of a run; while none has ended, how long those in progress have taken. None: unknown."""
        return self.busy_seconds / max(self.runs, 1) if self.runs or self.busy_seconds else None


def add_work(found: dict[str, QueueWork], worker: PinLaterWorker) -> None:
    """Add the loads that a worker reports to the work of their queues."""
    for load in worker.queueLoads or ():
        queue, target_ms = load.queueName, load.latencyTargetMillis
        if not (queue and target_ms):  # such a report is not stored
            continue
        work = found.setdefault(queue, QueueWork())
        work.target_seconds = min(work.target_seconds, target_ms / 1000)
        work.slots += 0 if worker.isDraining else load.jobsAtOnce or 0
        work.running += load.jobsRunning or 0
        work.runs += load.jobsEnded or 0
        work.busy_seconds += (load.busyMillis or 0) / 1000
        work.window_seconds = max(work.window_seconds, (load.windowMillis or 0) / 1000)


@dataclass(slots=True)
class WorkersNeededSampler:
    """Sets the gauges of queues with a latency target, from the reports of all workers and the sampled backlogs.

    The target and run time of a queue are kept when its last worker is gone, so that queues scale to zero and back.

    Args:
        metrics: the gauges to set, and the backlog.
        clock: monotonic seconds.
    """

    metrics: Metrics
    clock: Callable[[], float] = time.monotonic
    _codec: Codec = field(default_factory=Codec)
    _growth: RecentRates = field(default_factory=lambda: RecentRates(_GROWTH_SECONDS, absent=None))
    _known: dict[str, tuple[float, float | None]] = field(default_factory=dict)  # targets and run times

    async def sample(self, reports: Iterable[KeptReport]) -> None:
        """Sample once, given the reports of all workers; to be run by one process of a server."""
        found = await self._work(reports)
        backlogs = self.metrics.backlog_jobs.by_queue()
        growth = self._growth.add(self.clock(), backlogs)
        self._remember(found, backlogs)
        gauges = (self.metrics.workers_needed, self.metrics.worker_slots, self.metrics.latency_target_seconds)
        for gauge in gauges:
            gauge.retain(self._known)
        paused = {queue for queue, value in self.metrics.paused.by_queue().items() if value}
        for queue, (target, run_seconds) in self._known.items():
            work = found.get(queue) or QueueWork()
            waits = queue not in paused  # no worker gets the jobs of a paused queue
            need = Need(
                target,
                run_seconds,
                work.runs_per_second,
                work.running,
                backlogs.get(queue, 0.0) * waits,
                growth.get(queue, 0.0) * waits,
            )
            for gauge, value in zip(gauges, (need.slots(), work.slots, target), strict=True):
                gauge.set(queue, value)

    async def _work(self, kept: Iterable[KeptReport]) -> dict[str, QueueWork]:
        found: dict[str, QueueWork] = {}
        for one in kept:
            if not may_have_loads(one.report):
                continue
            try:
                add_work(found, self._codec.decode_struct(PinLaterWorker, one.report))
            except MalformedMessage as error:
                log.debug("the stored report of worker %s is invalid: %s", one.worker_id, error)
            await asyncio.sleep(0)  # each takes up to a millisecond, in which the event loop serves nobody
        return found

    def _remember(self, found: dict[str, QueueWork], queues: Iterable[str]) -> None:
        """Keep the target and run time of each queue that exists; new ones replace them."""
        known = {**self._known, **{queue: (work.target_seconds, work.run_seconds) for queue, work in found.items()}}
        existing = set(queues)
        self._known = {
            queue: (target, self._known.get(queue, (0.0, None))[1] if run_seconds is None else run_seconds)
            for queue, (target, run_seconds) in known.items()
            if queue in existing
        }
