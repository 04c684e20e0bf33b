"""Notifications from a store, for instance that other servers have made jobs claimable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
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


NotifyOfJobs = Callable[[str, int | None, Callable[[], Collection[JobLocation]], int], None]
"""Notifies others of new jobs; takes the queue, when they fall due in epoch milliseconds (None: now), a function that
returns where they are, for those who need to know, and how many there are."""


OnWoken = Callable[[str, int, Collection[JobLocation]], None]
"""Receives the name of a queue, how many of its sleeping jobs have become due, and where they are."""


OnCancelled = Callable[[Sequence[str]], None]
"""Receives descriptors of running jobs that are asked to stop."""


class JobNotifications:
    """Passes notifications of a store on to its listeners; without listeners, they are dropped.

    Attributes:
        on_jobs: called when other servers have stored jobs.
        on_gap: called when notifications may have been lost.
        on_woken: called, in the event loop, when messages that this server has stored have made jobs due.
        on_cancelled: called with the descriptors of jobs that other servers have asked to stop.
        publishers: publish functions by the name of the shard that passes notifications on, only while other servers
            listen there; each takes a queue that has new jobs, and when they fall due.
    """

    def __init__(self) -> None:
        self.publishers: dict[str, Callable[[str, int | None], None]] = {}
        self.on_jobs: OnJobs = lambda _queue, _due_ms, _locations: None
        self.on_gap: Callable[[], None] = lambda: None
        self.on_woken: OnWoken = lambda _queue, _count, _locations: None
        self.on_cancelled: OnCancelled = lambda _descriptors: None

    def publish(
        self,
        queue: str,
        due_ms: int | None,
        locations: Callable[[], Collection[JobLocation]],
        _count: int = 1,
    ) -> None:
        """Have the shards of new jobs notify other servers of them; see ``NotifyOfJobs``."""
        if not self.publishers:
            return
        for shard in {location.shard for location in locations()}:
            publish = self.publishers.get(shard)
            if publish is not None:
                publish(queue, due_ms)
