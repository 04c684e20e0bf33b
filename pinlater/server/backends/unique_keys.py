"""Which job has a unique key, and whether a new job gets it; for stores that decide in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.unique import OnDuplicate, UniqueRule


class KeyHolder(NamedTuple):
    """A job that has a unique key.

    Attributes:
        priority: the job's priority.
        local_id: its id on the shard.
        created_at: when it was enqueued, in epoch milliseconds.
        is_started: whether it was ever claimed.
        has_period: whether the key is taken for a period that is not over.
        is_finished: whether it has the key only because of that period; the job itself may be gone.
    """

    priority: int
    local_id: int
    created_at: int = 0
    is_started: bool = False
    has_period: bool = False
    is_finished: bool = False

    def gives_way_to(self, rule: UniqueRule | None) -> bool:
        """Return whether the holder gives up its key to a new job with that rule."""
        return self.is_started and not self.has_period and rule is not None and rule.until_started

    def is_replaced_by(self, job: NewJob) -> bool:
        """Return whether the holder gets the body of a new job that has the same key."""
        return job.unique_rule is not None and job.unique_rule.on_duplicate > OnDuplicate.KEEP and not self.is_started

    def replaced_due(self, job: NewJob, now: int) -> int | None:
        """Return when the holder is due after it got the content of a new job; None: as before."""
        rule = job.unique_rule
        if rule is None or rule.on_duplicate != OnDuplicate.DEBOUNCE:
            return None
        due = now if job.run_after_ms is None else job.run_after_ms
        if rule.max_delay_ms is not None:
            due = min(due, self.created_at + rule.max_delay_ms)
        return max(due, now)


def replaced(stored: NewJob, job: NewJob, due: int | None) -> NewJob:
    """Return a new job with the content of a later one of the same call that replaces it."""
    run_after = stored.run_after_ms if due is None else due
    return stored._replace(body=job.body, attempts=job.attempts, status=job.status, run_after_ms=run_after)


def replaced_import(stored: JobRecord, job: NewJob, due: int | None, now: int) -> JobRecord:
    """Return an imported job with the content of a new one in the same transaction that replaces it."""
    return stored._replace(
        body=job.body,
        attempts_allowed=job.attempts,
        attempts_remaining=job.attempts,
        status=job.status,
        run_after_ms=stored.run_after_ms if due is None else due,
        updated_at_ms=now,
        failure_group=None,
    )


def key_holders(
    jobs: Iterable[tuple[str, int, int, int, int]], periods: Iterable[tuple[str, int, int]]
) -> dict[str, KeyHolder]:
    """Return the holder of each key.

    Args:
        jobs: unfinished jobs: key, priority, id, time of the enqueue, and whether it was ever claimed.
        periods: periods that are not over: key, and priority and id of the job that began it.
    """
    holders = {key: KeyHolder(priority, at, created, bool(started)) for key, priority, at, created, started in jobs}
    for key, priority, local_id in periods:
        holder = holders.get(key) or KeyHolder(priority, local_id, is_started=True, is_finished=True)
        holders[key] = holder._replace(has_period=True)
    return holders
