"""Who has a unique key, and whether a new job gets it; for stores that decide in Python."""

from __future__ import annotations

from typing import NamedTuple

from pinlater.model.unique import UniqueRule


class KeyHolder(NamedTuple):
    """A job that has a unique key.

    Attributes:
        priority: of the job.
        local_id: its id on the shard.
        is_started: whether it was ever claimed.
    """

    priority: int
    local_id: int
    is_started: bool = False

    def gives_way_to(self, rule: UniqueRule | None) -> bool:
        """Return whether the holder gives up its key to a new job with that rule."""
        return self.is_started and rule is not None and rule.until_started
