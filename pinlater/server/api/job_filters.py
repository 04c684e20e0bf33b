"""Filters of counts and scans beside state, priority, time and body."""

from __future__ import annotations

from pinlater.errors import UnknownError
from pinlater.protocol.messages import FAILED, PENDING
from pinlater.server.backends.records import JobFilter


def narrowed(which: JobFilter, is_retrying: bool | None, failure_group: int | None) -> JobFilter:
    """Return the filter for jobs that are retried, or of a failure group: those that are due and future ones.

    Raises:
        UnknownError: no job of that state can be so.
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
