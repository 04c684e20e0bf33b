"""Who has a unique key, and whether a new job gets it; for stores that decide in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pinlater.model.unique import UniqueRule


class KeyHolder(NamedTuple):
    """A job that has a unique key.

    Attributes:
        priority: of the job.
        local_id: its id on the shard.
        is_started: whether it was ever claimed.
        has_period: whether the key is taken for a time that is not over.
        is_finished: whether it has the key for that alone, and may be gone.
    """

    priority: int
    local_id: int
    is_started: bool = False
    has_period: bool = False
    is_finished: bool = False

    def gives_way_to(self, rule: UniqueRule | None) -> bool:
        """Return whether the holder gives up its key to a new job with that rule."""
        return self.is_started and not self.has_period and rule is not None and rule.until_started


def key_holders(
    jobs: Iterable[tuple[str, int, int, int]], periods: Iterable[tuple[str, int, int]]
) -> dict[str, KeyHolder]:
    """Return who has which key.

    Args:
        jobs: unfinished ones: key, priority, id, and whether each was ever claimed.
        periods: that are not over: key, and priority and id of the job that began each.
    """
    holders = {key: KeyHolder(priority, local_id, bool(is_started)) for key, priority, local_id, is_started in jobs}
    for key, priority, local_id in periods:
        holder = holders.get(key) or KeyHolder(priority, local_id, is_started=True, is_finished=True)
        holders[key] = holder._replace(has_period=True)
    return holders
