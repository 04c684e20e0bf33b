"""Scans over several shards: one order for all, (run_after, shard, id), from either end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, Position, RecordPage

_BEHIND_ALL = 2**63 - 1


class _Rank(NamedTuple):
    run_after_ms: int
    shard: str
    local_id: int


def start_of(shard: str, position: Position | None) -> Position | None:
    """Return where a shard continues a scan that continues at ``position`` over all shards."""
    if position is None or shard == position.shard:
        return position
    # Of the jobs of that very moment, shards of a higher name have shown all, those of a lower one none.
    return Position(position.run_after_ms, 0 if shard > position.shard else _BEHIND_ALL)


def merge(pages: Iterable[RecordPage], limit: int, *, oldest_first: bool = False) -> RecordPage:
    """Merge the pages that shards returned for the same limit into one."""
    ranked: list[tuple[_Rank, JobRecord]] = []
    has_more = False
    for page in pages:
        ranked += ((_rank(record), record) for record in page.jobs)
        has_more = has_more or page.position is not None
    ranked.sort(key=lambda entry: entry[0], reverse=not oldest_first)
    shown = ranked[:limit]
    if not shown or not (has_more or len(ranked) > limit):
        return RecordPage([record for _, record in shown], None)
    last = shown[-1][0]
    return RecordPage([record for _, record in shown], Position(last.run_after_ms, last.local_id, last.shard))


def _rank(record: JobRecord) -> _Rank:
    job = JobDescriptor.parse(record.descriptor)
    return _Rank(record.run_after_ms, job.shard, job.local_id)
