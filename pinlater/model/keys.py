"""The key that jobs share, such as a customer: how many of its jobs run at once, and in which order."""

from __future__ import annotations

from typing import NamedTuple


class JobKey(NamedTuple):
    """The key of a job, and the rule for the jobs of its queue that share it.

    Without a limit, the jobs of several keys take turns: one key with many jobs does not hold up the others.

    Attributes:
        text: 1 to 200 characters without NUL; compared character by character.
        max_running: maximum number of jobs of the key that run, or have been let through to run, at once; None: no
            limit.
        is_ordered: whether the jobs of the key run one at a time, in the order in which they were enqueued; one that is
            scheduled or retried holds up those behind it. ``max_running`` is then 1.
        rate: maximum rate at which jobs of the key are started, such as ``10/s``; None: no limit. The rate of the job
            that was enqueued last applies to all jobs of the key.
    """

    text: str
    max_running: int | None = None
    is_ordered: bool = False
    rate: str | None = None


WAITS_FOR_KEY_MS = 1 << 52
"""Stores add this to the ``run_after`` of a PENDING job that has to wait for others of its key: it is due in the year
144,683, unless it is let through before. So claims, counts and searches need not know about keys. A double holds it
exactly.
"""


def without_wait(run_after_ms: int) -> int:
    """Return when a job is due, given its ``run_after`` in a store, whether or not it waits for its key."""
    return run_after_ms - WAITS_FOR_KEY_MS if run_after_ms >= WAITS_FOR_KEY_MS else run_after_ms
