"""The error that stands for the result of a job that has failed for good."""

from __future__ import annotations

from pinlater.errors import JobFailed, JobGone, JobWasCancelled
from pinlater.model.status import parse_status


def job_failed(
    descriptor: str, status: str, *, name: str = "", is_cancelled: bool = False, is_gone: bool = False
) -> JobFailed:
    """Return the error to raise for the result of a job that has failed for good.

    Args:
        descriptor: address of the job; empty if unknown.
        status: its custom status, or the end of it.
        name: name of its class; empty if unknown.
        is_cancelled: whether it was cancelled.
        is_gone: whether it was deleted, or is unknown.
    """
    text, attempts = parse_status(status)
    who = f"{name} {descriptor}".strip() or "the job"
    if is_gone:
        return JobGone(f"{who} was deleted, or never there", descriptor, status, attempts)
    if is_cancelled:
        said = (text.strip().splitlines() or [""])[-1]
        why = said.removeprefix("cancelled").removeprefix(": ")  # see ``cancelled_status``
        return JobWasCancelled(f"{who} was cancelled{f': {why}' if why else ''}", descriptor, status, attempts)
    why = attempts[-1].error if attempts else text.strip()
    return JobFailed(f"{who} failed{f': {why}' if why else ''}", descriptor, status, attempts)
