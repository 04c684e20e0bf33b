"""The jobs that a dequeue may claim: as many as it wants and fit into its answer, with their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import id_list

_CLAIMABLE = QUERIES["claimable_jobs"]
_BODIES = QUERIES["bodies_of_jobs"]

_dequeued_job: Callable[[tuple[Any, ...]], DequeuedJob] = partial(tuple.__new__, DequeuedJob)
"""Makes a record without running Python code, since it is called for every claimed job."""

_numbers = msgspec.json.Decoder(list[int]).decode

Rows = Callable[[str, Iterable[Any]], list[Any]]
"""Runs a query; returns its rows."""


class Claimable(NamedTuple):
    """Jobs of one priority in their order, one list per column.

    Attributes:
        is_cut: whether another job of the priority is due, which is one too many or did not fit into the answer.
    """

    ids: list[int]
    sizes: Sequence[int]
    allowed: Sequence[int]
    remaining: Sequence[int]
    created_at: Sequence[int]
    run_after: Sequence[int]
    is_cut: bool

    @property
    def bytes_taken(self) -> int:
        """How many bytes of an answer the jobs take."""
        return sum(self.sizes) + JOB_OVERHEAD_BYTES * len(self.sizes)

    def with_bodies(self, rows: Rows, prefix: str) -> list[DequeuedJob]:
        """Return the jobs as they are handed out; ``prefix`` is what their descriptors begin with."""
        [(joined,)] = rows(_BODIES, (id_list(self.ids),))
        descriptors = [f"{prefix}{local_id}" for local_id in self.ids]
        bodies = [joined[end - size : end] for size, end in zip(self.sizes, accumulate(self.sizes), strict=True)]
        told = descriptors, bodies, self.allowed, self.remaining, self.created_at, self.run_after
        return list(map(_dequeued_job, zip(*told, strict=True)))


def walk_claimable(
    rows: Rows, queue_id: int, prefixes: Sequence[str], now: int, *, limit: int, max_bytes: int, is_first: bool = True
) -> Iterator[tuple[str, Claimable]]:
    """Yield the jobs that a dequeue may claim, priority by priority, each with what its descriptors begin with.

    Args:
        rows: runs a query and returns its rows.
        queue_id: the queue's id.
        prefixes: what descriptors begin with, one for each priority from 1.
        now: the time by which jobs are due.
        limit: most jobs in all.
        max_bytes: most bytes of the answer.
        is_first: whether these are the first jobs of the answer; if so, the first of them is yielded even if it does
            not fit.
    """
    wanted, room, at_least = limit, max_bytes, int(is_first)
    for priority, prefix in enumerate(prefixes, 1):
        [columns] = rows(_CLAIMABLE, (queue_id, now, priority, wanted + 1))  # one more, to see whether this is all
        if columns[0] is None:
            continue
        found = _fitting(Claimable._make([*map(_numbers, columns), False]), wanted, room, at_least)
        yield prefix, found
        wanted, room, at_least = wanted - len(found.ids), room - found.bytes_taken, 0
        if found.is_cut or wanted <= 0:
            return


def _fitting(found: Claimable, wanted: int, room_bytes: int, at_least: int) -> Claimable:
    if len(found.ids) > wanted:
        found = _cut(found, wanted)
    if found.bytes_taken <= room_bytes:
        return found
    filled = accumulate(size + JOB_OVERHEAD_BYTES for size in found.sizes)
    fitting = max(sum(total <= room_bytes for total in filled), at_least)
    return _cut(found, fitting) if fitting < len(found.ids) else found


def _cut(found: Claimable, count: int) -> Claimable:
    return Claimable._make([*(column[:count] for column in found[:-1]), True])
