"""Records of the client <-> structs of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pinlater.errors import ProtocolError
from pinlater.model.records import (
    Ack,
    Checkpoint,
    ClaimedJob,
    JobInfo,
    NewJob,
    Page,
    QueueSettings,
    RunningJob,
    UnknownJobs,
    WorkerProcess,
    WorkerReport,
)
from pinlater.model.state import JobState
from pinlater.protocol import messages
from pinlater.protocol.messages import CONTINUATION_END


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds, never fewer than asked for."""
    return -int(-seconds * 1000 // 1)


# What is sent


def job_struct(job: NewJob) -> messages.PinLaterJob:
    """Make the struct of a job to enqueue."""
    return messages.PinLaterJob(job.body, job.priority, job.run_after_ms, job.attempts, job.status, job.unique)


def ack_struct(queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> messages.PinLaterJobAckRequest:
    """Make the struct of some acks."""
    return messages.PinLaterJobAckRequest(
        queueName=queue, jobsSucceeded=_ack_structs(succeeded), jobsFailed=_ack_structs(failed)
    )


def _ack_structs(acks: Iterable[Ack]) -> list[messages.PinLaterJobAckInfo]:
    return [
        messages.PinLaterJobAckInfo(
            jobDescriptor=ack.descriptor,
            appendCustomStatus=ack.status,
            retryDelayMillis=milliseconds(ack.retry_delay),
            claimDescriptor=ack.claim,
            isFinal=ack.final or None,
        )
        for ack in acks
    ]


def checkpoint_struct(checkpoint: Checkpoint) -> messages.PinLaterCheckpointJobRequest:
    """Make the struct of one checkpoint.

    A server of the original takes text for a body, and would damage other bytes. So those travel in the field
    that it does not know: it leaves the body as it was.
    """
    struct = messages.PinLaterCheckpointJobRequest(
        jobDescriptor=checkpoint.descriptor,
        moveToPending=checkpoint.move_to_pending,
        runAfterTimestampMillis=checkpoint.run_after_ms,
        numOfAttemptsAllowed=checkpoint.attempts,
        prependCustomStatus=checkpoint.status,
        claimDescriptor=checkpoint.claim,
    )
    if checkpoint.body is not None:
        if _is_text(checkpoint.body):
            struct.newBody = checkpoint.body
        else:
            struct.newBodyBytes = checkpoint.body
    return struct


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def worker_struct(report: WorkerReport) -> messages.PinLaterWorker:
    """Make the struct of a worker's report; when it came, the server knows."""
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
    )


# What comes back


def nothing(_: Any) -> None:
    """Take the reply of a void method."""


def number(reply: Any) -> int:
    """Take a count."""
    return int(_there(reply))


def names(reply: Any) -> set[str]:
    """Take queue names; the codec brings sets as lists."""
    return set(_there(reply))


def descriptors(reply: Any) -> list[str]:
    """Take the descriptors of new jobs."""
    found: list[str] = _there(_there(reply).jobDescriptors)
    return found


def claimed_jobs(reply: Any) -> list[ClaimedJob]:
    """Take the jobs of a dequeue, in its order; both maps are absent when there is none."""
    metadata = reply.jobMetadata or {}
    unknown = messages.PinLaterDequeueMetadata()
    found = []
    for descriptor, body in (reply.jobs or {}).items():
        about = metadata.get(descriptor, unknown)
        found.append(
            ClaimedJob(
                descriptor,
                body,
                about.attemptsAllowed,
                about.attemptsRemaining,
                about.claimDescriptor,
                about.createdAtTimestampMillis,
                about.runAfterTimestampMillis,
            )
        )
    return found


def job_infos(reply: Any) -> dict[str, JobInfo]:
    """Take the answer of a lookup, by descriptor as asked for."""
    return {descriptor: job_info(struct) for descriptor, struct in _there(reply).items()}


def job_info(struct: messages.PinLaterJobInfo) -> JobInfo:
    """Take one job."""
    return JobInfo(
        _there(struct.jobDescriptor),
        JobState(_there(struct.jobState)),
        struct.attemptsAllowed or 0,
        struct.attemptsRemaining or 0,
        struct.customStatus or "",
        struct.createdAtTimestampMillis or 0,
        struct.runAfterTimestampMillis,
        struct.updatedAtTimestampMillis,
        struct.claimDescriptor,
        struct.body,
        struct.uniqueKey,
    )


def info_struct(info: JobInfo) -> messages.PinLaterJobInfo:
    """Make what ``job_info`` took."""
    return messages.PinLaterJobInfo(
        info.descriptor,
        int(info.state),
        info.attempts_allowed,
        info.attempts_remaining,
        info.status,
        info.created_at_ms,
        info.run_after_ms,
        info.updated_at_ms,
        info.claim,
        info.body,
        info.unique,
    )


def queue_settings(reply: Any) -> dict[str, QueueSettings]:
    """Take the settings of all queues."""
    return {
        queue: QueueSettings(bool(one.isPaused), one.maxJobsPerSecond, one.maxRunning, bool(one.isFromFile))
        for queue, one in _there(reply).items()
    }


def moments(reply: Any) -> dict[str, int]:
    """Take points in time by queue."""
    found: dict[str, int] = _there(reply)
    return found


def worker_reports(reply: Any) -> list[WorkerReport]:
    """Take what the workers have reported."""
    return [_worker_report(struct) for struct in _there(reply)]


def _worker_report(struct: messages.PinLaterWorker) -> WorkerReport:
    return WorkerReport(
        _there(struct.workerId),
        _there(struct.host),
        struct.pid,
        struct.version,
        struct.pythonVersion,
        struct.startedAtTimestampMillis,
        bool(struct.isDraining),
        [_worker_process(process) for process in struct.processes or ()],
        struct.reportedAtTimestampMillis,
        tuple(
            UnknownJobs(
                _there(jobs.queueName), _there(jobs.className), jobs.timesReturned, jobs.lastReturnedAtTimestampMillis
            )
            for jobs in struct.unknownJobs or ()
        ),
    )


def _worker_process(struct: messages.PinLaterWorkerProcess) -> WorkerProcess:
    return WorkerProcess(
        _there(struct.pid),
        struct.pool,
        struct.queueNames or [],
        struct.startedAtTimestampMillis,
        struct.memoryBytes,
        struct.jobsAtOnce,
        struct.jobsEnded,
        [
            RunningJob(_there(job.jobDescriptor), _there(job.startedAtTimestampMillis))
            for job in struct.runningJobs or ()
        ],
    )


def page(reply: Any) -> Page:
    """Take one page of a scan."""
    more = _there(reply).continuation
    return Page([job_info(struct) for struct in reply.scannedJobs or ()], None if more == CONTINUATION_END else more)


def _there(value: Any) -> Any:
    """Return ``value``; the codec does not insist on required fields."""
    if value is None:
        raise ProtocolError("the server's answer lacks a required field")
    return value
