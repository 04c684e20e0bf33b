"""Counts how often a job's process has died while it ran, so that a job that kills its workers is given up.

The count is stored with the job: each crash leaves a line in its custom status. If a job that was given up is retried
by hand, the count goes on, and the job is given up again after as many further crashes.
"""

from __future__ import annotations

import re

from pinlater.model.body_metadata import read_recurrence, read_saga
from pinlater.model.status import parse_status

MOST_CRASHES = 3
"""A job is given up after this many crashes, whatever attempts remain."""

_CRASH = re.compile(r"crash (\d{1,9})\b", re.ASCII)


def crashes_in(status: str) -> int:
    """Return the number of crashes that a custom status records."""
    _, failed = parse_status(status)
    marks = (_CRASH.match(each.error) for each in failed if each.attempt is None)
    return max((int(mark[1]) for mark in marks if mark), default=0)


def is_recorded(status: str, where: str) -> bool:
    """Tell whether a custom status records a crash.

    Args:
        status: custom status of the job.
        where: time, host and process of the crash.
    """
    return f"[{where}] crash " in status


def is_poison(crashes: int, body: bytes) -> bool:
    """Tell whether a job is given up for its latest crash.

    A rescheduled job is not, since its crashes belong to many runs, and the attempts of each run limit them. Nor is a
    job that has given up and undoes its sagas: it has few attempts for that.

    Args:
        crashes: number of crashes, including the latest.
        body: body of the job.
    """
    if crashes % MOST_CRASHES or read_recurrence(body) is not None:
        return False
    saga = read_saga(body)
    return saga is None or not saga.why


def crash_mark(where: str, crashes: int, evidence: str, *, is_given_up: bool) -> str:
    """Return the line that a crash leaves in the status.

    Args:
        where: time, host and process.
        crashes: number of crashes, including this one.
        evidence: how the process ended.
        is_given_up: whether the job is given up for it.
    """
    verdict = ", poison: given up for it" if is_given_up else ""
    return f"[{where}] crash {crashes}{verdict}: {evidence}\n"
