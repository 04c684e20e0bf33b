"""The options that all kinds of stores have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.records import CommitStats


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of a store; all shards of a store share them.

    Attributes:
        priority_levels: priorities are 1 to this.
        now_ms: a clock for tests; None: the clock of each database, or of this machine for an SQLite file.
        count_limit: counts stop at this number per priority.
        regex_seconds: time limit for searching bodies in one call.
        on_commit: called after each transaction or batch of calls.
        notifications: receives jobs that become claimable without a call for their queue: released or woken ones.
    """

    priority_levels: int
    now_ms: Callable[[], int] | None = None
    count_limit: int = 100_000
    regex_seconds: float = 2.0
    on_commit: Callable[[CommitStats], None] = lambda _: None
    notifications: JobNotifications = field(default_factory=JobNotifications)
