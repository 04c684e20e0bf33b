"""Filters of counts and scans other than state, priority, time and body."""

from __future__ import annotations

from pinlater.errors import UnknownError
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.records import JobFilter


def narrowed(which: JobFilter, is_retrying: bool | None, failure_group: int | None) -> JobFilter:
    """Narrow a filter to jobs that are retrying, or in a failure group, both due and future ones.

    Raises:
        UnknownError: the state or the priority of the filter does not allow that.
    """
    if is_retrying is not None and which.state != PENDING:
        raise UnknownError("retrying jobs are PENDING; leave out retrying, or ask for PENDING")
    if failure_group is not None and which.state not in {PENDING, FAILED}:
        raise UnknownError("jobs of a failure group are PENDING or FAILED; leave out failureGroup, or ask for these")
    if failure_group is not None and which.priority is not None:
        raise UnknownError("the jobs of a failure group are counted over all priorities; leave out the priority")
    if failure_group is not None:
        return which._replace(is_future=None, failure_group=failure_group)
    return which._replace(is_future=None, is_retrying=True) if is_retrying else which


def of_key(which: JobFilter, key: str | None) -> JobFilter:
    """Narrow a filter to jobs that have a key, shared or unique, both due and future ones; None: do not narrow it.

    Raises:
        UnknownError: the rest of the filter does not allow that, or the key is invalid.
    """
    if key is None:
        return which
    if which.state not in {PENDING, IN_PROGRESS}:
        raise UnknownError(
            "jobs of a key are found while they are PENDING or IN_PROGRESS; ask for these, or leave out key"
        )
    if any((which.priority, which.failure_group, which.is_retrying, which.body_regex)):
        raise UnknownError(
            "jobs of a key are found in all priorities; leave out priority, failureGroup, retrying and the body pattern"
        )
    if not key or "\0" in key:
        raise UnknownError("a key has at least one character, and no NUL")
    return which._replace(is_future=None, key=key)
