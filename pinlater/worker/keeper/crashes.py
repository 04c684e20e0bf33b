"""Counts how often a job's process has died while it ran, so that a job that kills its workers is given up.

The count is kept where the job is: each crash leaves a line in the job's custom status. A job that was given up and
is retried by hand goes on counting, and is given up again after as many further crashes.
"""

from __future__ import annotations

import re

from pinlater.model.body_metadata import read_recurrence, read_saga
from pinlater.model.status import parse_status

MOST_CRASHES = 3
"""A job is given up after so many crashes, whatever attempts remain."""

_CRASH = re.compile(r"crash (\d{1,9})\b", re.ASCII)


def crashes_in(status: str) -> int:
    """Return how many crashes a custom status tells of."""
    _, failed = parse_status(status)
    marks = (_CRASH.match(each.error) for each in failed if each.attempt is None)
    return max((int(mark[1]) for mark in marks if mark), default=0)


def is_poison(crashes: int, body: bytes) -> bool:
    """Tell whether a job is given up for its latest crash.

    One that runs again and again is not, since its crashes are those of many runs; the attempts of each run bound them.
    Nor is one that gave up before and undoes its sagas: it has few attempts for that.

    Args:
        crashes: how many there were.
        body: of the job.
    """
    if crashes % MOST_CRASHES or read_recurrence(body) is not None:
        return False
    saga = read_saga(body)
    return saga is None or not saga.why


def crash_mark(where: str, crashes: int, evidence: str, *, is_given_up: bool) -> str:
    """Return the line that a crash leaves in the status.

    Args:
        where: moment, host and process.
        crashes: how many there were, with this one.
        evidence: how the process ended.
        is_given_up: whether the job is given up for it.
    """
    verdict = ", poison: given up for it" if is_given_up else ""
    return f"[{where}] crash {crashes}{verdict}: {evidence}\n"
