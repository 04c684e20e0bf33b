"""Whose turn it is: which jobs of a key are let through to be claimed, for stores that decide in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey

TURN_JOBS = 1
"""How many jobs of a key without a limit are let through at once, before it is the next key's turn."""

LEAD_MS = 5
"""How far a new job of a key without other jobs stands ahead of the turns that come now, in milliseconds.

A key with many jobs has one that is due at any time: each claim lets the next one through. Without the lead, a new job
of another key would wait for that one, and for more if several turns come in the same millisecond, where the older job
comes first.
"""

ORDERED = 0
"""Stands for the limit of an ordered key in the stores."""


def stored_limit(key: JobKey) -> int | None:
    """Return the limit of a key as the stores keep it."""
    return ORDERED if key.is_ordered else key.max_running


def job_key(text: str | None, limit: int | None, rate: str | None = None) -> JobKey | None:
    """Return the key of a stored job."""
    return None if text is None else JobKey(text, 1 if limit == ORDERED else limit, limit == ORDERED, rate)


class KeyedJob(NamedTuple):
    """A PENDING job of a key.

    Attributes:
        local_id: its id on the shard.
        run_after: when it is due, in epoch milliseconds, without what is added while it waits for its key.
        limit: the limit of its key, as it is stored.
    """

    local_id: int
    run_after: int
    limit: int | None

    @property
    def is_ordered(self) -> bool:
        """Whether it holds up the jobs of its key that come after it."""
        return self.limit == ORDERED


class KeyState(NamedTuple):
    """The jobs of one key that are let through or running.

    Attributes:
        running: how many are claimed.
        pending: how many are let through and not claimed.
        scheduled: those that are let through but not due yet.
    """

    running: int
    pending: int
    scheduled: Sequence[KeyedJob]


def turns(
    state: KeyState, waiting: Iterable[KeyedJob], now: int, turn_jobs: int = TURN_JOBS, *, lead_ms: int = 0
) -> dict[int, int]:
    """Return the new ``run_after`` of jobs of a key, by id, that lets through those whose turn it is.

    A job that is let through stands behind the jobs of other keys that are due now. One that is let through but not due
    makes way for one that is due earlier, unless the key is ordered. Of a key with many that are not due, such as after
    an outage, as many are due at once as are let through otherwise.

    Args:
        state: the jobs that are let through or running.
        waiting: the jobs that wait, in the order (run_after, id).
        now: the time of the store.
        turn_jobs: how many to let through at once without a limit; more for a dequeue that finds nothing else.
        lead_ms: how far ahead of the turns that come now to put those that are due: 0, or ``LEAD_MS`` for new jobs.
    """
    changed: dict[int, int] = {}
    pending = state.pending
    scheduled = sorted((job for job in state.scheduled if not job.is_ordered), key=_order)
    for job in waiting:
        most = turn_jobs if job.limit is None else max(job.limit, 1) - state.running
        if pending < most:
            pending += 1
        elif pending - len(scheduled) < most and not job.is_ordered and _order(job) < _order(scheduled[-1]):
            makes_way = scheduled.pop()
            changed[makes_way.local_id] = makes_way.run_after + WAITS_FOR_KEY_MS
        else:
            break
        changed[job.local_id] = job.run_after if job.run_after > now else now - lead_ms
    return changed


def let_through(changed: dict[int, int]) -> dict[int, int]:
    """Return those of the changes that ``turns`` has returned that let a job through."""
    return {local_id: run_after for local_id, run_after in changed.items() if run_after < WAITS_FOR_KEY_MS}


def _order(job: KeyedJob) -> tuple[int, int]:
    return job.run_after, job.local_id
