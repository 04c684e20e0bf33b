"""Structs of jobs <-> records: new jobs, claimed jobs, what a server knows of a job, pages of a scan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from pinlater.model.records import ClaimedJob, JobInfo, NewJob, Page
from pinlater.model.state import JobState
from pinlater.protocol import messages
from pinlater.protocol.conversion.values import present
from pinlater.protocol.messages import CONTINUATION_END

# New jobs


def new_job_struct(
    body: bytes,
    priority: int,
    run_after_ms: int | None,
    attempts: int,
    status: str = "",
    *,
    unique: str | None = None,
) -> messages.PinLaterJob:
    """Build the struct of a job to enqueue, for those who enqueue many, from the fields of a ``NewJob``."""
    return messages.PinLaterJob(body, priority, run_after_ms, attempts, status, unique)


def job_struct(job: NewJob) -> messages.PinLaterJob:
    """Build the struct of a job to enqueue."""
    return messages.PinLaterJob(*job)


def descriptors(reply: Any) -> list[str]:
    """Read the descriptors of new jobs."""
    found: list[str] = present(present(reply).jobDescriptors)
    return found


# Claimed jobs


def claimed_jobs(reply: Any) -> list[ClaimedJob]:
    """Read the jobs of a dequeue, in its order; both maps are absent when there is none."""
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


def server_time_ms(reply: Any) -> int | None:
    """Read from the reply of a dequeue when it is on the server; None if it is one of the original."""
    found: int | None = present(reply).serverTimestampMillis
    return found


def split_reply(reply: Any, most_jobs: int) -> Iterator[Any]:
    """Yield replies of a dequeue of up to `most_jobs` jobs, which make up ``reply``."""
    if not reply.jobs:
        return
    if len(reply.jobs) <= most_jobs:
        yield reply
        return
    jobs, metadata = iter(reply.jobs.items()), reply.jobMetadata
    while part := dict(itertools.islice(jobs, most_jobs)):
        yield messages.PinLaterDequeueResponse(part, {descriptor: metadata[descriptor] for descriptor in part})


def claimed_reply(job: ClaimedJob) -> messages.PinLaterDequeueResponse:
    """Build the reply of a dequeue that has claimed one job."""
    metadata = messages.PinLaterDequeueMetadata(
        job.attempts_allowed, job.attempts_remaining, job.claim, job.created_at_ms, job.run_after_ms
    )
    return messages.PinLaterDequeueResponse({job.descriptor: job.body}, {job.descriptor: metadata})


# What a server knows of a job


def job_infos(reply: Any) -> dict[str, JobInfo]:
    """Read the answer of a lookup, by descriptor as asked for."""
    return {descriptor: job_info(struct) for descriptor, struct in present(reply).items()}


def job_info(struct: messages.PinLaterJobInfo) -> JobInfo:
    """Read one job."""
    return JobInfo(
        present(struct.jobDescriptor),
        JobState(present(struct.jobState)),
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
    """Build the struct of one job."""
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


def page(reply: Any) -> Page:
    """Read one page of a scan."""
    more = present(reply).continuation
    return Page([job_info(struct) for struct in reply.scannedJobs or ()], None if more == CONTINUATION_END else more)
