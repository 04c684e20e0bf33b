"""Structs of jobs <-> records: new jobs, claimed jobs, job infos, pages of a scan."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from pinlater.errors import ContinuationInvalid
from pinlater.model.attempts import ClaimedJob, DequeuedJob
from pinlater.model.jobs import JobInfo, JobRecord, NewJob, Page, PartialCount, Position
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey, without_wait
from pinlater.model.messages import Parent
from pinlater.model.state import JobState
from pinlater.model.unique import UniqueRule
from pinlater.protocol import messages
from pinlater.protocol.conversion.messages import WAIT, parent_of, waits
from pinlater.protocol.conversion.values import MOST_RUN_MS, default, number, present
from pinlater.protocol.messages import CONTINUATION_END, CONTINUATION_START

_CONTINUATION = re.compile(r"(-?\d{1,19})\.(\d{1,19})(?:\.s([^:]+))?", re.ASCII)
_MAX_INT64 = 2**63 - 1

# New jobs

_new_job: Callable[[tuple[Any, ...]], NewJob] = partial(tuple.__new__, NewJob)
"""Creates a record without a call in Python, since every enqueued job passes here."""


def new_job_struct(
    body: bytes,
    priority: int,
    run_after_ms: int | None,
    attempts: int,
    status: str = "",
    *,
    unique: str | None,
    rule: UniqueRule | None = None,
    key: JobKey | None = None,
    parent: Parent | None = None,
) -> messages.PinLaterJob:
    """Build the struct of a job to enqueue from the fields of a ``NewJob``."""
    job = messages.PinLaterJob(body, priority, run_after_ms, attempts, status, unique)
    if rule is not None:
        job.uniqueUntilStarted, job.uniqueForMillis = rule.until_started or None, rule.period_ms or None
        job.onDuplicate, job.maxDelayMillis = int(rule.on_duplicate) or None, rule.max_delay_ms
    if key is not None:
        job.key, job.maxRunningOfKey, job.keyInOrder, job.rateOfKey = _fields_of_key(key)
    if parent is not None:
        job.parentDescriptor, job.parentMessageName, job.parentPosition = parent
    return job


def _fields_of_key(key: JobKey) -> tuple[str, int | None, bool | None, str | None]:
    return key.text, None if key.is_ordered else key.max_running, key.is_ordered or None, key.rate


def job_key(struct: messages.PinLaterJob | messages.PinLaterJobInfo) -> JobKey | None:
    """Read the key that a job shares with others; None if it has none."""
    if struct.key is None:
        return None
    max_running, is_ordered = struct.maxRunningOfKey, bool(struct.keyInOrder)
    return JobKey(struct.key, 1 if is_ordered and max_running is None else max_running, is_ordered, struct.rateOfKey)


def new_job_structs(jobs: Iterable[NewJob]) -> list[messages.PinLaterJob]:
    """Build the structs of jobs to enqueue."""
    return [
        new_job_struct(*job[:5], unique=job.unique, rule=job.unique_rule, key=job.key, parent=job.parent)
        for job in jobs
    ]


def new_jobs(structs: Iterable[messages.PinLaterJob]) -> list[NewJob]:
    """Read jobs to enqueue."""
    fields = [
        (
            it.body,
            it.priority,
            it.runAfterTimestampMillis,
            it.numAttemptsAllowed,
            it.customStatus,
            None,
            None,
            None,
            None if it.parentDescriptor is None else parent_of(it),
        )
        if it.uniqueKey is None and it.key is None
        else _rare_fields(it)
        for it in structs
    ]
    return list(map(_new_job, fields))


def _rare_fields(job: messages.PinLaterJob) -> tuple[Any, ...]:
    rule: UniqueRule | None = None
    asked = job.uniqueUntilStarted, job.uniqueForMillis, job.onDuplicate
    if job.uniqueKey is not None and asked != (None, None, None):
        for_ms, on_duplicate = default(job.uniqueForMillis, 0), default(job.onDuplicate, 0)
        rule = UniqueRule(bool(job.uniqueUntilStarted), for_ms, on_duplicate, job.maxDelayMillis)
    told = job.body, job.priority, job.runAfterTimestampMillis, job.numAttemptsAllowed, job.customStatus
    return (*told, job.uniqueKey, rule, None if job.key is None else job_key(job), parent_of(job))


def enqueue_reply(descriptors: list[str]) -> messages.PinLaterEnqueueResponse:
    """Build the reply of an enqueue or import."""
    return messages.PinLaterEnqueueResponse(descriptors)


def descriptors(reply: Any) -> list[str]:
    """Read the descriptors of new jobs."""
    found: list[str] = present(present(reply).jobDescriptors)
    return found


# Claimed jobs


_told_of_claim: Callable[[messages.PinLaterDequeueMetadata], tuple[Any, ...]] = attrgetter(
    "attemptsAllowed", "attemptsRemaining", "claimDescriptor", "createdAtTimestampMillis", "runAfterTimestampMillis"
)
"""Returns the fields of a ``ClaimedJob`` that come after its body."""


def claimed_jobs(reply: Any) -> list[ClaimedJob]:
    """Read the jobs of a dequeue, in its order; both maps are absent when there is none."""
    metadata, unknown = reply.jobMetadata or {}, messages.PinLaterDequeueMetadata()
    return [
        ClaimedJob(descriptor, body, *_told_of_claim(metadata.get(descriptor, unknown)))
        for descriptor, body in (reply.jobs or {}).items()
    ]


def dequeue_reply(
    jobs: Collection[Sequence[DequeuedJob]] = (), claim: str | None = None, now_ms: int | None = None
) -> messages.PinLaterDequeueResponse:
    """Build the reply of a dequeue from the jobs of each queue, all under one claim; without jobs, it has no maps.

    Args:
        jobs: the jobs of each queue.
        claim: token of the claim; None in a dry run.
        now_ms: the server's time, epoch milliseconds.
    """
    bodies: dict[str, bytes] = {}
    metadata: dict[str, messages.PinLaterDequeueMetadata] = {}
    for descriptor, body, allowed, remaining, created_ms, due_ms in itertools.chain.from_iterable(jobs):
        bodies[descriptor] = body
        metadata[descriptor] = messages.PinLaterDequeueMetadata(allowed, remaining, claim, created_ms, due_ms)
    return messages.PinLaterDequeueResponse(bodies or None, metadata or None, now_ms)


def server_time_ms(reply: Any) -> int | None:
    """Read the server's time from the reply to a dequeue; None if the server is one of the original."""
    found: int | None = present(reply).serverTimestampMillis
    return found


def split_reply(reply: Any, most_jobs: int) -> Iterator[Any]:
    """Split the reply to a dequeue into replies of up to ``most_jobs`` jobs; yield none if it has no jobs."""
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
    metadata = messages.PinLaterDequeueMetadata(*job[2:])
    return messages.PinLaterDequeueResponse({job.descriptor: job.body}, {job.descriptor: metadata})


# Job infos


def job_infos(reply: Any) -> dict[str, JobInfo]:
    """Read the answer to a lookup, by the descriptors that were asked for."""
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
        job_key(struct),
        bool(struct.waitsForKey),
        struct.result,
        bool(struct.isCancelled),
        parent_of(struct),
        waits(struct.waitsFor),
        struct.failureGroup,
        struct.runMillis,
    )


def info_struct(job: JobInfo | JobRecord) -> messages.PinLaterJobInfo:
    """Build the struct of one job; it begins with the fields of the records, in the same order."""
    info = messages.PinLaterJobInfo(*job[:11])
    if job.key is not None:
        info.key, info.maxRunningOfKey, info.keyInOrder, info.rateOfKey = _fields_of_key(job.key)
        due = default(job.run_after_ms, 0)
        info.waitsForKey = due >= WAITS_FOR_KEY_MS or None
        info.runAfterTimestampMillis = without_wait(due)
    info.result, info.isCancelled = job.result, job.is_cancelled or None
    info.parentDescriptor, info.parentMessageName, info.parentPosition = job.parent or (None, None, None)
    info.waitsFor = WAIT.structs(job.waits_for) or None
    info.failureGroup, info.runMillis = job.failure_group, job.run_ms
    return info


def imported_job(struct: messages.PinLaterJobInfo, status: str) -> JobRecord:
    """Read a job from another store; ``status`` is its status, validated. Its claim there is dropped."""
    created_at_ms = default(struct.createdAtTimestampMillis, 0)
    return JobRecord(
        struct.jobDescriptor or "",
        default(struct.jobState, 0),
        default(struct.attemptsAllowed, 1),
        default(struct.attemptsRemaining, 1),
        status,
        created_at_ms,
        default(struct.runAfterTimestampMillis, created_at_ms),
        default(struct.updatedAtTimestampMillis, created_at_ms),
        None,
        struct.body,
        struct.uniqueKey,
        job_key(struct),
        struct.result,
        bool(struct.isCancelled),
        failure_group=struct.failureGroup,
        run_ms=struct.runMillis if 0 < default(struct.runMillis, 0) < MOST_RUN_MS else None,
    )


# Pages of a scan


def page(reply: Any) -> Page:
    """Read one page of a scan."""
    more = present(reply).continuation
    jobs = [job_info(struct) for struct in reply.scannedJobs or ()]
    missing = tuple(reply.missingShards or ())
    return Page(jobs, None if more == CONTINUATION_END else more, reply.lookedAt, missing)


def page_reply(
    jobs: list[Any], position: Position | None, looked_at: int | None, missing_shards: Iterable[str]
) -> messages.PinLaterScanJobsResponse:
    """Build the reply to a scan; ``position`` is where it continues, None if it has ended."""
    more = CONTINUATION_END if position is None else write_continuation(position)
    return messages.PinLaterScanJobsResponse(jobs, more, looked_at, sorted(missing_shards) or None)


def job_count(reply: Any) -> int:
    """Read a count of jobs."""
    return reply if isinstance(reply, PartialCount) else number(reply)


def read_continuation(token: str | None) -> Position | None:
    """Return the position at which a scan continues; None: it starts.

    Raises:
        ContinuationInvalid: the token was not returned by a scan.
    """
    if token is None or token == CONTINUATION_START:
        return None
    match = _CONTINUATION.fullmatch(token)
    if match:
        position = Position(int(match[1]), int(match[2]), match[3] or "")
        if max(map(abs, position[:2])) <= _MAX_INT64:
            return position
    raise ContinuationInvalid(
        f"continuation {token[:100]!r} comes from no scan; start with {CONTINUATION_START!r}, "
        "then send what the answer before had"
    )


def write_continuation(position: Position) -> str:
    """Return the position of a scan as a token for the wire."""
    token = f"{position.run_after_ms}.{position.local_id}"
    return f"{token}.s{position.shard}" if position.shard else token
