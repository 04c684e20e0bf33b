"""Jobs that a dequeue may hand out: as many as are wanted and fit into an answer, with their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from pinlater.server.backends.contract import JOB_OVERHEAD_BYTES, ClaimedJob
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import id_list

_CLAIMABLE = QUERIES["claimable_jobs"]
_BODIES = QUERIES["bodies_of_jobs"]

_numbers = msgspec.json.Decoder(list[int]).decode

Rows = Callable[[str, Iterable[Any]], list[Any]]
"""Runs a query; returns its rows."""


class Claimable(NamedTuple):
    """Jobs of one priority, in their order; a column each.

    Attributes:
        is_cut: whether there was no room for the next one.
    """

    ids: Sequence[int]
    sizes: Sequence[int]
    allowed: Sequence[int]
    remaining: Sequence[int]
    created_at: Sequence[int]
    run_after: Sequence[int]
    is_cut: bool

    @property
    def bytes_taken(self) -> int:
        """What the jobs take of an answer."""
        return sum(self.sizes) + JOB_OVERHEAD_BYTES * len(self.sizes)

    def with_bodies(self, rows: Rows, prefix: str) -> list[ClaimedJob]:
        """Return the jobs as they are handed out; ``prefix`` is the head of their descriptors."""
        [(bodies,)] = rows(_BODIES, (id_list(self.ids),))
        ends = list(accumulate(self.sizes))
        return [
            ClaimedJob(f"{prefix}{local_id}", bodies[end - size : end], allowed, remaining, created_at, run_after)
            for local_id, size, end, allowed, remaining, created_at, run_after in zip(
                self.ids, self.sizes, ends, self.allowed, self.remaining, self.created_at, self.run_after, strict=True
            )
        ]


def find_claimable(
    rows: Rows, queue_id: int, now: int, priority: int, *, limit: int, room_bytes: int, at_least: int
) -> Claimable | None:
    """Return the first jobs of a priority that are due, None if there are none.

    Args:
        rows: runs queries.
        queue_id: of this queue.
        now: what "due" is measured by.
        priority: of this priority.
        limit: most jobs.
        room_bytes: most bytes of the answer.
        at_least: jobs that are returned even if they do not fit: 1 in an answer that has none yet, else 0.
    """
    [columns] = rows(_CLAIMABLE, (queue_id, now, priority, limit))
    if columns[0] is None:
        return None
    found = Claimable._make([*map(_numbers, columns), False])
    if found.bytes_taken <= room_bytes:
        return found
    filled = accumulate(size + JOB_OVERHEAD_BYTES for size in found.sizes)
    fitting = max(sum(total <= room_bytes for total in filled), at_least)
    return Claimable._make([*(column[:fitting] for column in found[:-1]), fitting < len(found.ids)])
