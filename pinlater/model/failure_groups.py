"""Failure groups: what failed attempts of one queue have in common, so that a few lines describe thousands of them.

A group is a job class and an error line without the parts that vary. Its id is a hash of both, so all servers, shards
and clients use the same number for a group.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from pinlater.model.class_name import name_in
from pinlater.model.jobs import JobRecord
from pinlater.model.state import JobState
from pinlater.model.status import parse_status

LONGEST_ERROR = 240
"""Characters that are kept of an error line."""

LONGEST_CLASS = 200
"""Characters that are kept of the name of a class."""

NO_ERROR = "(no error text)"

_VARYING = re.compile(
    r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}|0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+"
)
"""Parts that differ between failures of one kind: mail addresses, memory addresses, UUIDs, numbers."""

_VERDICT = re.compile(
    r" \(final: no retry would help\)| \(too late to try again: [^()]{1,100}\)|, poison: given up for it", re.ASCII
)
"""What workers append when they give a job up; it does not make a different error."""


class FailureGroup(NamedTuple):
    """Jobs of one queue whose last attempt failed in the same way, and that were neither retried by hand nor cancelled.

    Attributes:
        queue: queue of the jobs.
        id: id of the group; the same in all queues.
        job: name of the class; empty if unknown.
        error: their error line, with ``#`` in place of what varies.
        example: the error line of one of them.
        first_ms: when the first of them failed, epoch milliseconds.
        last_ms: when the last of them failed.
        given_up: how many are FAILED, counted up to 10,000 on each shard.
        retrying: how many are PENDING and will be tried again, counted likewise.
    """

    queue: str
    id: int
    job: str
    error: str
    example: str
    first_ms: int
    last_ms: int
    given_up: int
    retrying: int

    @property
    def jobs(self) -> int:
        """How many jobs are in it."""
        return self.given_up + self.retrying


class JobFailure(NamedTuple):
    """How an attempt failed.

    Attributes:
        group: id of the group that it belongs to.
        job: name of the job's class; empty if unknown.
        error: its error line, with ``#`` in place of what varies.
        example: the error line.
    """

    group: int
    job: str
    error: str
    example: str


def failure_of(job: str, status: str) -> JobFailure:
    """Return how an attempt failed.

    Args:
        job: name of the job's class; empty if unknown.
        status: what the failure has added to the job's status, or the whole status.
    """
    return _failure(job[:LONGEST_CLASS].replace("\0", "\N{REPLACEMENT CHARACTER}"), error_line(status) or NO_ERROR)


def failure_in(job: JobRecord) -> JobFailure | None:
    """Return how the last attempt of a job from another store failed, by its body and status; None if it did not."""
    if job.is_cancelled or not (job.state == JobState.FAILED or job.failure_group is not None):
        return None
    return failure_of(name_in(job.body or b"") or "", job.status)


def error_line(status: str) -> str:
    """Return the error line of the last failure in a status; empty if there is none."""
    remark, attempts = parse_status(status)
    line = attempts[-1].error if attempts else next(iter(remark.strip().splitlines()), "")
    return line.strip()[:LONGEST_ERROR]


def normalised(line: str) -> str:
    """Return an error line with ``#`` in place of what varies between failures of one kind."""
    return _VARYING.sub("#", _VERDICT.sub("", line))


def _failure(job: str, line: str) -> JobFailure:
    error = normalised(line)
    digest = hashlib.sha256(f"{job}\0{error}".encode("utf-8", "replace")).digest()
    return JobFailure(int.from_bytes(digest[:8]) >> 1 or 1, job, error, line)


CLAIM_EXPIRED = _failure("", "claim expired")
"""Failure of an attempt whose lease expired because its worker was not heard from."""

OTHER_ERRORS = _failure("", "other errors")
"""Stands for failures in a queue that has too many groups to add another one."""
