"""Finds the interruption of an attempt whose job has swallowed the exception."""

from __future__ import annotations

from pinlater.errors import JobInterrupted, interruption_in
from pinlater.jobs.context import JobContext


def swallowed_interruption(context: JobContext, error: BaseException | None) -> JobInterrupted | None:
    """Return the interruption that a job has swallowed; None if it has not swallowed any.

    Args:
        context: context of the attempt.
        error: what the job raised instead; None: nothing.
    """
    found = context.interruption
    if found is None or (error is not None and interruption_in(error) is not None):
        return None
    found.was_swallowed = True
    return found
