"""Structs of what workers report of themselves <-> records."""

from __future__ import annotations

from typing import Any

from pinlater.model.workers import JobClass, QueueLoad, RunningJob, UnknownJobs, WorkerProcess, WorkerReport
from pinlater.protocol import messages
from pinlater.protocol.conversion.values import present


def worker_struct(report: WorkerReport) -> messages.PinLaterWorker:
    """Build the struct of a worker's report; when it came, the server knows."""
    return messages.PinLaterWorker(
        workerId=report.id,
        host=report.host,
        pid=report.pid,
        version=report.version,
        pythonVersion=report.python,
        startedAtTimestampMillis=report.started_ms,
        isDraining=report.is_draining,
        processes=[_process_struct(process) for process in report.processes],
        unknownJobs=[messages.PinLaterUnknownJobs(*jobs) for jobs in report.unknown] or None,
        queueLoads=[messages.PinLaterQueueLoad(*load) for load in report.loads] or None,
        sentAtTimestampMillis=report.sent_ms,
        jobClasses=[messages.PinLaterJobClass(*one[:4], one.schema or None) for one in report.classes] or None,
    )


def _process_struct(process: WorkerProcess) -> messages.PinLaterWorkerProcess:
    return messages.PinLaterWorkerProcess(
        pid=process.pid,
        pool=process.pool,
        queueNames=list(process.queues),
        startedAtTimestampMillis=process.started_ms,
        memoryBytes=process.memory_bytes,
        jobsAtOnce=process.slots,
        jobsEnded=process.ended,
        runningJobs=[messages.PinLaterRunningJob(*job) for job in process.jobs],
        memoryAtStartBytes=process.memory_at_start_bytes,
    )


def worker_reports(reply: Any) -> list[WorkerReport]:
    """Read what the workers have reported."""
    return [_worker_report(struct) for struct in present(reply)]


def _worker_report(struct: messages.PinLaterWorker) -> WorkerReport:
    return WorkerReport(
        present(struct.workerId),
        present(struct.host),
        struct.pid,
        struct.version,
        struct.pythonVersion,
        struct.startedAtTimestampMillis,
        bool(struct.isDraining),
        [_worker_process(process) for process in struct.processes or ()],
        struct.reportedAtTimestampMillis,
        tuple(_unknown_jobs(jobs) for jobs in struct.unknownJobs or ()),
        queue_loads(struct),
        struct.sentAtTimestampMillis,
        tuple(
            JobClass(present(one.className), present(one.queueName), one.priority, one.attempts, one.bodySchema or "")
            for one in struct.jobClasses or ()
        ),
        struct.lostAtTimestampMillis,
    )


def _worker_process(struct: messages.PinLaterWorkerProcess) -> WorkerProcess:
    return WorkerProcess(
        present(struct.pid),
        struct.pool,
        struct.queueNames or [],
        struct.startedAtTimestampMillis,
        struct.memoryBytes,
        struct.jobsAtOnce,
        struct.jobsEnded,
        [
            RunningJob(present(job.jobDescriptor), present(job.startedAtTimestampMillis))
            for job in struct.runningJobs or ()
        ],
        struct.memoryAtStartBytes,
    )


def _unknown_jobs(struct: messages.PinLaterUnknownJobs) -> UnknownJobs:
    return UnknownJobs(
        present(struct.queueName), present(struct.className), struct.timesReturned, struct.lastReturnedAtTimestampMillis
    )


LOAD_NUMBERS = ("jobsAtOnce", "jobsRunning", "windowMillis", "jobsEnded", "busyMillis")
_LOADS_FIELD = b"\x0f\x00\x0b\x0c"
"""How a list of structs begins that is field 11, ``queueLoads``."""


def may_have_loads(encoded: bytes) -> bool:
    """Tell, without decoding it, whether an encoded report may have loads; if not, it has none."""
    return _LOADS_FIELD in encoded


def queue_loads(struct: Any) -> tuple[QueueLoad, ...]:
    """Read the loads in a worker's report; what it does not tell is 0."""
    return tuple(
        QueueLoad(
            present(load.queueName),
            present(load.latencyTargetMillis),
            *(getattr(load, name) or 0 for name in LOAD_NUMBERS),
        )
        for load in struct.queueLoads or ()
    )
