"""The key that jobs share, such as a customer: how many of its jobs run at once, in which order."""

from __future__ import annotations

from typing import NamedTuple


class JobKey(NamedTuple):
    """The key of a job, and the rule for the jobs of its queue that share it.

    Without a limit, the jobs of several keys take turns: one key with many jobs does not hold up the others.

    Attributes:
        text: 1 to 200 characters without NUL; compared character by character.
        max_running: at most so many jobs of the key run, or wait at the head of the queue, at once; None: no limit.
        is_ordered: the jobs of the key run one after the other, in the order of their enqueues; one that is scheduled
            or retried holds up those behind it. ``max_running`` is 1.
        rate: at most so many jobs of the key are started in a time, as ``10/s``; None: no limit. Of all jobs of the
            key, the rate that was enqueued last counts.
    """

    text: str
    max_running: int | None = None
    is_ordered: bool = False
    rate: str | None = None


WAITS_FOR_KEY_MS = 1 << 52
"""Stores add this to the ``run_after`` of a PENDING job that has to wait for others of its key: it is due in the year
144,683, unless it is let through before. So no claim, count or search needs to know of keys. A double holds it exactly.
"""


def without_wait(run_after_ms: int) -> int:
    """Return when a job is due whose ``run_after`` a store has given, whether it waits for its key or not."""
    return run_after_ms - WAITS_FOR_KEY_MS if run_after_ms >= WAITS_FOR_KEY_MS else run_after_ms
