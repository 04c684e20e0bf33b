"""Notifications of jobs that have become claimable: from the store to the broker, and between servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from pinlater.model.jobs import NewJob


class JobLocation(NamedTuple):
    """Where jobs are.

    Attributes:
        shard: name of their shard.
        priority: their priority; None: unknown.
    """

    shard: str
    priority: int | None = None

    def __str__(self) -> str:
        return f"{self.shard}:{self.priority or ''}"

    @classmethod
    def parse(cls, text: str) -> JobLocation:
        """Read what ``str`` has written; raise ``ValueError`` for any other text."""
        shard, separator, priority = text.partition(":")
        if not (shard and separator):
            raise ValueError(f"{text!r} names no shard")
        return cls(shard, int(priority) if priority else None)


def locations_of(descriptors: Iterable[str]) -> set[JobLocation]:
    """Return where the jobs of some descriptors are."""
    heads = {descriptor.rpartition(":")[0] for descriptor in descriptors}  # few, however many jobs a call has
    parts = (head.split(":") for head in heads)
    return {JobLocation(shard[1:], int(priority[1:])) for _, shard, priority in parts}


def later_ms(job: NewJob, now_ms: int) -> int | None:
    """Return when a new job falls due later than now; None: it is due, or it may replace another one.

    In the last case, only the store knows when that one is due.
    """
    if job.run_after_ms is None or job.run_after_ms <= now_ms:
        return None
    return None if job.unique_rule and job.unique_rule.on_duplicate else job.run_after_ms


OnJobs = Callable[[str, int | None, Collection[JobLocation]], None]
"""Receives the name of a queue that has new jobs, when they fall due in epoch milliseconds (None: now), and where they
are, if that is known."""


OnClaimable = Callable[[str, int | None, Collection[JobLocation]], None]
"""Receives the name of a queue, how many of its jobs have become claimable (None: one or more), and where they are."""


class JobNotifications:
    """Passes on which jobs a store has made claimable without a call for their queue.

    Attributes:
        on_claimable: called, in the event loop, for sleeping jobs that messages have woken, and for jobs of claims that
            were given back in the background.
    """

    def __init__(self) -> None:
        self.on_claimable: OnClaimable = lambda _queue, _count, _locations: None
