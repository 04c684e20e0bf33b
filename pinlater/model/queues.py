"""Queues: limits on handing out their jobs, and the shards that new jobs go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FOLLOWS_LOAD = -1
"""Used as a number of shards: as many as the load of the queue needs."""


class QueueSettings(NamedTuple):
    """Limits on handing out a queue's jobs, and the shards that new jobs go to.

    Attributes:
        is_paused: whether no jobs are handed out.
        jobs_per_second: maximum number of jobs handed out per second, by all servers together; None: no limit.
        max_running: maximum number of jobs claimed at once; None: no limit.
        shards: how many shards new jobs go to; ``FOLLOWS_LOAD`` (-1): as many as the load needs; None: all.
        shards_by_load: how many the load needs, as the servers have measured; None: not measured yet.
        is_from_file: whether ``is_paused`` and ``jobs_per_second`` come from the server's file of rate limits.
        active_shards: names of the shards that new jobs go to; empty: all.
    """

    is_paused: bool = False
    jobs_per_second: float | None = None
    max_running: int | None = None
    shards: int | None = None
    shards_by_load: int | None = None
    is_from_file: bool = False
    active_shards: Sequence[str] = ()

    @property
    def shard_count(self) -> int | None:
        """How many shards new jobs go to at present; None: all."""
        return self.shards_by_load if self.shards == FOLLOWS_LOAD else self.shards


class QueueChange(NamedTuple):
    """A change of queue settings: None leaves a setting unchanged, 0 removes a limit."""

    is_paused: bool | None = None
    jobs_per_second: float | None = None
    max_running: int | None = None
    shards: int | None = None
    shards_by_load: int | None = None

    def applied_to(self, settings: QueueSettings) -> QueueSettings:
        """Return the settings after the change."""
        defaults = QueueSettings._field_defaults
        changed = {name: value or defaults[name] for name, value in self._asdict().items() if value is not None}
        return settings._replace(**changed)
