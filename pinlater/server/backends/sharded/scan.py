"""Scans over several shards: one order over all of them, (run_after, shard, id), from either end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.model.walked_jobs import WalkedJobs

_BEHIND_ALL = 2**63 - 1


class _Rank(NamedTuple):
    run_after_ms: int
    shard: str
    local_id: int


def start_of(shard: str, position: Position | None) -> Position | None:
    """Return where a shard continues a scan that continues at ``position`` over all shards."""
    if position is None or shard == position.shard:
        return position
    # Of the jobs of exactly that moment, a scan from the latest has shown all on shards with higher names and none on
    # those with lower ones; a scan from the oldest, the other way round.
    return Position(position.run_after_ms, 0 if shard > position.shard else _BEHIND_ALL)


def merge(pages: Iterable[tuple[str, RecordPage]], limit: int, *, oldest_first: bool = False) -> RecordPage:
    """Merge into one page those that shards, given by name, have returned for the same limit."""
    walks = [(shard, page, page.walked) for shard, page in pages if page.walked is not None]
    if walks:
        return _merge_walks(walks, limit, oldest_first=oldest_first)
    ranked: list[tuple[_Rank, JobRecord]] = []
    has_more = False
    for _, page in pages:
        ranked += ((_rank(record), record) for record in page.jobs)
        has_more = has_more or page.position is not None
    ranked.sort(key=lambda entry: entry[0], reverse=not oldest_first)
    shown = ranked[:limit]
    if not shown or not (has_more or len(ranked) > limit):
        return RecordPage([record for _, record in shown], None)
    last = shown[-1][0]
    return RecordPage([record for _, record in shown], Position(last.run_after_ms, last.local_id, last.shard))


def _merge_walks(walks: Sequence[tuple[str, RecordPage, WalkedJobs]], limit: int, *, oldest_first: bool) -> RecordPage:
    """Merge searches of bodies: together they have come as far as the one that has come the least far.

    What the others have found beyond that point is found again by the search that continues from there.
    """
    found = [(_rank(job), job) for _, page, _ in walks for job in page.jobs]
    found.sort(key=lambda entry: entry[0], reverse=not oldest_first)
    ends = [_Rank(end.run_after_ms, shard, end.local_id) for shard, page, _ in walks if (end := page.position)]
    if len(found) > limit or (ends and len(found) == limit):
        ends.append(found[limit - 1][0])
    if not ends:
        return RecordPage([record for _, record in found], None, sum(len(walked) for *_, walked in walks))
    last = min(ends) if oldest_first else max(ends)
    jobs = [record for rank, record in found if rank == last or (rank < last) == oldest_first]
    position = Position(last.run_after_ms, last.local_id, last.shard)
    return RecordPage(jobs, position, sum(_count_until(walked, shard, position) for shard, _, walked in walks))


def _count_until(walked: WalkedJobs, shard: str, position: Position) -> int:
    run_after_ms, local_id, _ = start_of(shard, position) or position
    return walked.count_until(run_after_ms, local_id)


def _rank(record: JobRecord) -> _Rank:
    job = JobDescriptor.parse(record.descriptor)
    return _Rank(record.run_after_ms, job.shard, job.local_id)
