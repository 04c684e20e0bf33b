"""What a call may say: names, lengths, limits, defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.errors import (
    EnqueueRejected,
    PriorityNotSupported,
    QueueNameInvalid,
    QueueNameTooLong,
    UnknownError,
)
from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.queues import QueueChange
from pinlater.protocol.conversion import jobs as job_conversion
from pinlater.protocol.conversion import queues as queue_conversion
from pinlater.protocol.conversion.acks import stored_ack, stored_checkpoint
from pinlater.protocol.conversion.values import default
from pinlater.protocol.messages import (
    STATE_NAMES,
    PinLaterChangeQueueSettingsRequest,
    PinLaterCheckpointJobRequest,
    PinLaterJob,
    PinLaterJobAckInfo,
    PinLaterJobAckRequest,
    PinLaterJobInfo,
    RequestContext,
)
from pinlater.server.api.calls import CallRefused, missing, require
from pinlater.server.backends.records import (
    IDEMPOTENCY_KEY_BYTES,
    MAX_QUEUE_NAME_CHARACTERS,
    MAX_STATUS_CHARACTERS,
    MAX_UNIQUE_KEY_CHARACTERS,
    IdempotencyKey,
)

_QUEUE_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)

MAX_SOURCE_CHARACTERS = 300
"""Of a call. It becomes part of the claim, which is kept with each job, and sent with each job of an answer."""


MAX_KEEP_RESULT_MS = 86_400_000
"""The result of a call is kept no longer than this, whatever the call says."""


MAX_OTHER_QUEUES = 1000
"""Most queues that one dequeue may name besides its first. Calls of more than 64 KiB do not wait for jobs; with the
longest names, this is still less."""


def check_queue_name(name: str) -> None:
    """Return if a queue may be called so (wire contract §6.1).

    Raises:
        QueueNameInvalid: it has other characters than letters, digits and underscore, or none.
        QueueNameTooLong: not every store could keep it.
    """
    if not _QUEUE_NAME.fullmatch(name):
        raise QueueNameInvalid(f"Invalid queue name: {name[:200]} (allowed: letters, digits and underscore)")
    if len(name) > MAX_QUEUE_NAME_CHARACTERS:
        raise QueueNameTooLong(
            f"queue name {name[:100]} has {len(name)} characters; at most {MAX_QUEUE_NAME_CHARACTERS}"
        )


def queues_of(first: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return the queues of a dequeue, each once.

    Raises:
        QueueNameInvalid, QueueNameTooLong: one of them cannot be called so.
        UnknownError: they are too many.
    """
    if len(others) > MAX_OTHER_QUEUES:
        raise UnknownError(f"a dequeue names {len(others)} other queues; at most {MAX_OTHER_QUEUES} are allowed")
    queues = dict.fromkeys((first, *others))
    for name in queues:
        check_queue_name(name)
    return tuple(queues)


def check_source(source: str) -> None:
    """Return if a call may come from there.

    Raises:
        UnknownError: the name of its source is too long.
    """
    if len(source) > MAX_SOURCE_CHARACTERS:
        raise UnknownError(f"the source of a call has {len(source)} characters; at most {MAX_SOURCE_CHARACTERS}")


def idempotency_key(context: RequestContext, keep_seconds: float) -> IdempotencyKey | None:
    """Return the idempotency key of a call; None if it has none.

    Args:
        context: of the call.
        keep_seconds: how long its result is kept, unless the call says for how long.
    """
    value = context.idempotencyKey
    if value is None:
        return None
    if len(value) != IDEMPOTENCY_KEY_BYTES:
        raise UnknownError(f"an idempotency key has {IDEMPOTENCY_KEY_BYTES} bytes, such as a UUID's, not {len(value)}")
    keep_ms = context.keepResultMillis
    if keep_ms is None or keep_ms <= 0:
        keep_ms = int(keep_seconds * 1000)
    return IdempotencyKey(value, min(keep_ms, MAX_KEEP_RESULT_MS), bool(context.isRepeat))


def check_priority(priority: int | None, levels: int) -> None:
    """Return if ``priority`` is absent or one of the levels.

    Raises:
        PriorityNotSupported: it is not.
    """
    if priority is not None and not 1 <= priority <= levels:
        raise PriorityNotSupported(f"priority {priority} is not supported; use 1 (served first) to {levels}")


def check_state(state: int) -> None:
    """Return if there is such a job state."""
    if state not in STATE_NAMES:
        raise UnknownError(f"there is no job state {state}; use 0 (pending) to 3 (failed)")


def check_limit(limit: int) -> None:
    """Return if a limit is not negative."""
    if limit < 0:
        raise UnknownError(f"limit {limit} is negative; use 0 or more")


def status_text(text: str | None) -> str:
    """Return a custom status as stores keep it: cut, and without NUL, which ends a text in some of them."""
    if not text:
        return ""
    return text[:MAX_STATUS_CHARACTERS].replace("\0", "\N{REPLACEMENT CHARACTER}")


def new_jobs(structs: Sequence[PinLaterJob], levels: int, max_body_bytes: int) -> list[NewJob]:
    """Return the jobs of an enqueue.

    Raises:
        CallRefused, EnqueueRejected, PriorityNotSupported: one of them cannot be stored; so none is.
    """
    jobs = job_conversion.new_jobs(structs)
    for position, (body, priority, _, _, status, unique) in enumerate(jobs):
        if body is None:
            raise missing(f"request.jobs[{position}].body")
        if len(body) > max_body_bytes:
            raise _too_large(f"the body of job {position}", body, max_body_bytes)
        if not 1 <= priority <= levels:
            check_priority(priority, levels)
        if status and (kept := status_text(status)) != status:
            jobs[position] = jobs[position]._replace(status=kept)
        if unique is not None:
            _check_unique_key(unique, f"job {position}")
    return jobs


def queue_change(request: PinLaterChangeQueueSettingsRequest) -> QueueChange:
    """Return what a call wants changed.

    Raises:
        UnknownError: a limit is negative, or no number.
    """
    change = queue_conversion.queue_change(request)
    _, rate, most = change
    if rate is not None and not 0 <= rate < math.inf:
        raise UnknownError(f"a limit of {rate} jobs a second is none; use a number above 0, or 0 for no limit")
    if most is not None and most < 0:
        raise UnknownError(f"a limit of {most} running jobs is none; use a number above 0, or 0 for no limit")
    return change


def imported_jobs(jobs: Sequence[PinLaterJobInfo], levels: int, max_body_bytes: int) -> list[JobRecord]:
    """Return the jobs of an import.

    Raises:
        CallRefused, EnqueueRejected, PriorityNotSupported, UnknownError: one of them cannot be stored; so none is.
    """
    return [_imported_job(job, levels, max_body_bytes) for job in jobs]


def _imported_job(job: PinLaterJobInfo, levels: int, max_body_bytes: int) -> JobRecord:
    descriptor, body = job.jobDescriptor or "", job.body
    check_priority(JobDescriptor.parse(descriptor).priority, levels)
    check_state(default(job.jobState, -1))
    if body is None:
        raise missing(f"body of {descriptor}")
    if len(body) > max_body_bytes:
        raise _too_large(f"the body of {descriptor}", body, max_body_bytes)
    if job.uniqueKey is not None:
        _check_unique_key(job.uniqueKey, descriptor)
    return job_conversion.imported_job(job, status_text(job.customStatus))


def _check_unique_key(key: str, whose: str) -> None:
    if not 1 <= len(key) <= MAX_UNIQUE_KEY_CHARACTERS:
        raise EnqueueRejected(
            f"the unique key of {whose} has {len(key)} characters; it takes 1 to {MAX_UNIQUE_KEY_CHARACTERS}, "
            "so hash a longer one"
        )
    if "\0" in key:  # ends a text in some stores
        raise EnqueueRejected(f"the unique key of {whose} has a NUL in it; leave that out")


def _too_large(what: str, body: bytes, limit: int) -> EnqueueRejected:
    return EnqueueRejected(
        f"{what} has {len(body)} bytes, more than the {limit} that this server takes (MAX_BODY_BYTES); "
        "put the data elsewhere and its address into the job"
    )


class Acks(NamedTuple):
    """The acks of one call: those that can be understood, and what is wrong with the first of the others."""

    queue: str
    succeeded: list[StoredAck]
    failed: list[StoredAck]
    faults: list[Exception]


def jobs_of(queue: str, descriptors: Sequence[str]) -> list[JobDescriptor]:
    """Return the jobs that a call of one queue names.

    Raises:
        UnknownError: one is no descriptor, or that of another queue.
    """
    jobs = [JobDescriptor.parse(descriptor) for descriptor in descriptors]
    for job in jobs:
        if job.queue != queue:
            raise UnknownError(f"job {job} is not of queue {queue}, which the call is about")
    return jobs


def read_acks(request: PinLaterJobAckRequest) -> Acks:
    """Return the acks of a call; one that is malformed does not spoil the others.

    Raises:
        CallRefused, QueueNameInvalid, QueueNameTooLong: the queue is not named, or cannot be called so.
    """
    require(request, "jobAckRequest")
    queue = request.queueName or ""
    check_queue_name(queue)
    faults: list[Exception] = []
    return Acks(queue, _read(request.jobsSucceeded, faults), _read(request.jobsFailed, faults), faults)


def _read(infos: Sequence[PinLaterJobAckInfo] | None, faults: list[Exception]) -> list[StoredAck]:
    found: list[StoredAck] = []
    for info in infos or ():
        try:
            if info.jobDescriptor is None:
                raise missing("jobDescriptor of an ack")
            found.append(stored_ack(info, info.jobDescriptor, status_text(info.appendCustomStatus)))
        except (CallRefused, UnknownError) as fault:
            if not faults:  # the first one is answered; many would fill the memory with their tracebacks
                faults.append(fault)
    return found


def checkpoints(
    requests: Sequence[PinLaterCheckpointJobRequest], source: str, max_body_bytes: int
) -> list[StoredCheckpoint]:
    """Return the checkpoints of a call."""
    return [_checkpoint(request, source, max_body_bytes) for request in requests]


def _checkpoint(request: PinLaterCheckpointJobRequest, source: str, max_body_bytes: int) -> StoredCheckpoint:
    require(request, "request.requests[]")
    checkpoint = stored_checkpoint(request, source, status_text(request.prependCustomStatus))
    if checkpoint.body is not None and len(checkpoint.body) > max_body_bytes:
        raise _too_large(f"the checkpoint of {request.jobDescriptor}", checkpoint.body, max_body_bytes)
    return checkpoint
