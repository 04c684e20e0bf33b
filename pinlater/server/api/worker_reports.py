"""Validate the reports that workers send about themselves, and keep them in the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.codec import Codec
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import PinLaterQueueLoad, PinLaterWorker, PinLaterWorkerProcess
from pinlater.server.api.calls import require
from pinlater.server.api.concurrency_limit import ConcurrencyLimit
from pinlater.server.api.rules import check_queue_name
from pinlater.server.backends.records import MAX_WORKER_ID_CHARACTERS, KeptReport
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import Caller, LastReport

log = logging.getLogger(__name__)

MAX_REPORT_BYTES = 256 * 1024
"""Largest stored report of a worker."""

MAX_KEEP_MS = 24 * 3600 * 1000

_MAX_TEXT_CHARACTERS = 255
"""Longest host, version and pool name."""

_TIME_BYTES = 11
"""Bytes that the time of a report adds to a reply."""

_DECODED_AT_ONCE = 50
"""Reports that are decoded before the event loop serves others."""

_MOST_WAITING = 16
"""Reads of the reports that may wait; each may take as long as the slowest shard."""


class WorkerReports:
    """Carries out the calls that store and read worker reports.

    Args:
        backend: the store.
        max_bytes: most bytes of the reports in one reply.
    """

    def __init__(self, backend: Store, max_bytes: int) -> None:
        self._backend = backend
        self._max_bytes = max_bytes
        self._codec = Codec()
        self._reading = ConcurrencyLimit("reading the worker reports", _MOST_WAITING)

    async def store(self, arguments: Any, caller: Caller) -> None:
        """Store a report in place of the worker's last one, or delete that one; record it with the connection.

        Raises:
            CallRefused, UnknownError, QueueNameInvalid, QueueNameTooLong: it is invalid or too large.
        """
        request = arguments.request
        worker, keep_ms = request.worker, request.keepMillis
        _check_worker(worker)
        if not 0 <= keep_ms <= MAX_KEEP_MS:
            raise UnknownError(f"a report cannot be kept for {keep_ms} ms; use up to {MAX_KEEP_MS}, or 0 to delete it")
        worker.reportedAtTimestampMillis = worker.lostAtTimestampMillis = None
        report = self._codec.encode_struct(worker) if keep_ms else b""
        if len(report) > MAX_REPORT_BYTES:
            raise UnknownError(
                f"the report of worker {worker.workerId} has {len(report)} bytes, more than {MAX_REPORT_BYTES}; "
                "leave out some of the running jobs"
            )
        await self._backend.store_report(worker.workerId, report, keep_ms)
        before, sent_ms = caller.report, worker.sentAtTimestampMillis
        number = before.number + 1 if before is not None and before.worker_id == worker.workerId else 1
        caller.report = (
            LastReport(worker.workerId, sent_ms, keep_ms, time.monotonic(), number) if keep_ms and sent_ms else None
        )

    async def read(self, _: Any, __: Caller) -> list[PinLaterWorker]:
        """Return the latest report of each worker, sorted by host.

        Raises:
            NoHealthyShards: too many reads are waiting, or no shard answers.
        """
        async with self._reading.slot():  # decoded reports take many times their size
            return await self._read_all()

    async def _read_all(self) -> list[PinLaterWorker]:
        kept = await self._backend.reports(self._max_bytes)
        found: list[PinLaterWorker] = []
        size = 0
        for number, one in enumerate(kept, 1):
            size += len(one.report) + _TIME_BYTES
            if size > self._max_bytes:
                break
            found += self._read_one(one)
            if not number % _DECODED_AT_ONCE:
                await asyncio.sleep(0)
        return sorted(found, key=lambda worker: (worker.host or "", worker.workerId or ""))

    def _read_one(self, kept: KeptReport) -> Sequence[PinLaterWorker]:
        try:
            worker = self._codec.decode_struct(PinLaterWorker, kept.report)
        except MalformedMessage as error:
            log.warning("the stored report of worker %s is invalid: %s", kept.worker_id, error)
            return []
        worker.reportedAtTimestampMillis = kept.reported_at_ms
        return [worker]


def _check_worker(worker: PinLaterWorker) -> None:
    require(worker, "request.worker")
    _check_text("workerId", worker.workerId, fewest=1, most=MAX_WORKER_ID_CHARACTERS)
    _check_text("host", worker.host, fewest=1)
    _check_text("version", worker.version)
    _check_text("pythonVersion", worker.pythonVersion)
    for process in worker.processes or ():
        _check_process(process)
    for jobs in worker.unknownJobs or ():
        require(jobs, "request.worker.unknownJobs[]")
        check_queue_name(jobs.queueName or "")
        _check_text("className", jobs.className, fewest=1)
    for load in worker.queueLoads or ():
        _check_load(load)
    for kind in worker.jobClasses or ():
        require(kind, "request.worker.jobClasses[]")
        check_queue_name(kind.queueName or "")
        _check_text("className", kind.className, fewest=1)


def _check_process(process: PinLaterWorkerProcess) -> None:
    require(process, "request.worker.processes[]")
    _check_text("pool", process.pool)
    for name in process.queueNames or ():
        check_queue_name(name)
    for job in process.runningJobs or ():
        require(job, "request.worker.processes[].runningJobs[]")
        JobDescriptor.parse(job.jobDescriptor or "")


def _check_load(load: PinLaterQueueLoad) -> None:
    require(load, "request.worker.queueLoads[]")
    check_queue_name(load.queueName or "")
    if not (load.latencyTargetMillis or 0) > 0:
        raise UnknownError(f"latencyTargetMillis of queue {load.queueName} must be more than 0")
    for name in ("jobsAtOnce", "jobsRunning", "windowMillis", "jobsEnded", "busyMillis"):
        if (getattr(load, name) or 0) < 0:
            raise UnknownError(f"{name} of queue {load.queueName} cannot be negative")


def _check_text(name: str, text: str | None, *, fewest: int = 0, most: int = _MAX_TEXT_CHARACTERS) -> None:
    """Refuse a text that is too long, too short or not printable."""
    if text is not None and not (fewest <= len(text) <= most and text.isprintable()):
        raise UnknownError(
            f"{name} {text[:100]!r} of a worker must have {fewest} to {most} printable characters, not {len(text)}"
        )
