"""Queues: what holds their jobs back, and where new ones go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FOLLOWS_LOAD = -1
"""As a number of shards: as many as the load of the queue needs."""


class QueueSettings(NamedTuple):
    """What holds a queue's jobs back, and where new ones go.

    Attributes:
        is_paused: nothing is handed out.
        jobs_per_second: most jobs handed out a second, by all servers together; None: no limit.
        max_running: most jobs claimed at once; None: no limit.
        shards: how many shards new jobs go to; ``FOLLOWS_LOAD`` (-1): as many as the load needs; None: all.
        shards_by_load: how many the load needs, as the servers have found; None: they have not looked yet.
        is_from_file: the server's file of rate limits names the queue; what it says of the first two wins.
        active_shards: the names of the shards that new jobs go to; none: all.
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
    """A change of queue settings: None leaves a thing as it is, a limit of 0 takes it away."""

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
