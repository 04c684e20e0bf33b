"""Sample the reports of workers for alerts: who serves each queue, whose clock is off, whose memory grows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pinlater.model.silence import SILENT_SECONDS
from pinlater.protocol.codec import Codec
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import PinLaterWorker
from pinlater.server.backends.records import KeptReport
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.families import LabeledGauge

log = logging.getLogger(__name__)

MOST_WORKERS = 100
"""Most workers in one metric: those with the largest values. Usually there are none."""

_REST_FACTOR = 99
"""Take no sample for this many times as long as the last one took: large fleets send large reports."""

_LEAST_CLOCK_SECONDS = 1.0
_LEAST_GROWTH_BYTES = 50 * 2**20


class ReportSampler:
    """Reads the reports of all workers.

    Args:
        metrics: the gauges to set, and the queues that are sampled.
        now_ms: the clock of the store.
    """

    def __init__(self, metrics: Metrics, now_ms: Callable[[], int]) -> None:
        self._rests_until = 0.0
        self._metrics = metrics
        self._now_ms = now_ms
        self._codec = Codec()

    async def sample(self, reports: Iterable[KeptReport]) -> None:
        """Sample once, given the reports; to be run by one process of a server."""
        began = time.perf_counter()
        if began < self._rests_until:
            return
        serving, clocks, growths = Counter[str](), dict[str, float](), dict[str, float]()
        oldest_ms = self._now_ms() - SILENT_SECONDS * 1000
        for kept in reports:
            if kept.reported_at_ms < oldest_ms:
                continue
            try:
                worker = self._codec.decode_struct(PinLaterWorker, kept.report)
            except MalformedMessage as error:
                log.debug("the stored report of worker %s is invalid: %s", kept.worker_id, error)
                continue
            await asyncio.sleep(0)  # each takes up to a millisecond, in which the event loop serves nobody
            if worker.lostAtTimestampMillis is not None:
                continue
            if not worker.isDraining:
                serving.update(queue for process in worker.processes or () for queue in process.queueNames or ())
            name = f"{worker.host} {worker.pid}"
            clocks[name] = ((worker.sentAtTimestampMillis or kept.reported_at_ms) - kept.reported_at_ms) / 1000
            growths[name] = _growth(worker)
        self._set_serving(serving)
        _set(self._metrics.worker_clock_ahead_seconds, clocks, _LEAST_CLOCK_SECONDS)
        _set(self._metrics.worker_memory_growth_bytes, growths, _LEAST_GROWTH_BYTES)
        self._rests_until = time.perf_counter() + _REST_FACTOR * (time.perf_counter() - began)

    def _set_serving(self, serving: Mapping[str, int]) -> None:
        """Set the number of every queue that is sampled, to 0 where nobody serves it."""
        gauge, queues = self._metrics.worker_processes, self._metrics.backlog_jobs.by_queue()
        gauge.retain(queues)
        for queue in queues:
            gauge.set(queue, serving.get(queue, 0))


def _growth(worker: PinLaterWorker) -> int:
    """Return the largest growth of a job process since its first job, in bytes."""
    return max(
        (
            process.memoryBytes - process.memoryAtStartBytes
            for process in worker.processes or ()
            if process.memoryBytes and process.memoryAtStartBytes
        ),
        default=0,
    )


def _set(gauge: LabeledGauge, values: Mapping[str, float], least: float) -> None:
    """Set the largest values; the series of all others are dropped."""
    largest = sorted(values.items(), key=lambda item: -abs(item[1]))[:MOST_WORKERS]
    shown = {name: value for name, value in largest if abs(value) >= least}
    gauge.retain(shown)
    for name, value in shown.items():
        gauge.set(name, value)
