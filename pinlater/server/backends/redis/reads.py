"""Reading: lookup, count, scan; by chunks, so that no script holds up the others for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.records import RETRIES_LOOKED_AT, JobFilter, JobRecord, Page, Position
from pinlater.server.backends.redis.lifecycle import due_times, ids_of, pack
from pinlater.server.backends.redis.records import KINDS, Found, read_job
from pinlater.server.backends.redis.script_calls import ANY_QUEUE, Asker

AT_ONCE = 500
"""Jobs that one script reads."""

_ALL_CLAIMED = JobFilter(IN_PROGRESS)

_BODY_BYTES_AT_ONCE = 4_000_000
_BODIES_AT_ONCE = 50
"""When looked up: each may be large."""


_QUEUES_AT_ONCE = 200


class Search(NamedTuple):
    """What a count, scan or deletion looks for.

    Attributes:
        queue: its name.
        which: these jobs.
        levels: priorities are 1 to this.
        pattern: that bodies have to match; None: any.
    """

    queue: str
    which: JobFilter
    levels: int
    pattern: BodyPattern | None

    @property
    def priorities(self) -> Sequence[int]:
        return range(1, self.levels + 1) if self.which.priority is None else [self.which.priority]

    @property
    def time(self) -> str:
        """Which jobs by their time, as scripts take it."""
        return {None: "", True: "future", False: "due"}[self.which.is_future]


async def lookup(
    asker: Asker, queue: str, jobs: Sequence[JobDescriptor], *, include_body: bool
) -> list[JobRecord | None]:
    """Return the records of jobs of one queue; None for those not there."""
    at_once = _BODIES_AT_ONCE if include_body else AT_ONCE
    found: list[JobRecord | None] = []
    try:
        for start in range(0, len(jobs), at_once):
            found += await _lookup_some(asker, queue, jobs[start : start + at_once], include_body)
    except QueueNotFound:
        return [None] * len(jobs)
    return found


async def _lookup_some(
    asker: Asker, queue: str, jobs: Sequence[JobDescriptor], include_body: bool
) -> list[JobRecord | None]:
    *columns, bodies = await asker.ask("lookup", queue, ids_of(jobs), "1" if include_body else "")
    head = f"{queue}:s{asker.name}:p"
    return [_looked_up(head, job, row) for job, *row in zip(jobs, *columns, bodies or [None] * len(jobs), strict=True)]


def _looked_up(head: str, job: JobDescriptor, row: Sequence[bytes | None]) -> JobRecord | None:
    line, status, key, body = row
    if line is None:
        return None
    found = read_job(head, b" %d" % job.local_id, line, status, key)
    return found.record._replace(body=body) if found.priority == job.priority else None


async def count(asker: Asker, search: Search, cap: int) -> int:
    """Return how many jobs match, at most ``cap`` per priority."""
    if search.which.is_retry:
        return sum([await _retried(asker, search.queue, priority, cap) for priority in search.priorities])
    if search.pattern is None and search.which.state != IN_PROGRESS:
        first, last = search.priorities[0], search.priorities[-1]
        counts = await asker.ask("count", search.queue, KINDS[search.which.state], search.time, first, last)
        return sum(min(number, cap) for number in counts)
    if search.which == _ALL_CLAIMED:
        running: int = await asker.ask("running", search.queue)
        return min(running, cap * search.levels)
    total = 0
    for priority in search.priorities:
        total += len([found async for found in matching(asker, search, priority, cap)])
    return total


async def _retried(asker: Asker, queue: str, priority: int, cap: int) -> int:
    most, total = min(cap, RETRIES_LOOKED_AT), 0
    for start in range(0, most, AT_ONCE):
        size = min(AT_ONCE, most - start)
        seen, tried = await asker.ask("retried", queue, priority, start, start + size - 1)
        total += int(tried)
        if seen < size:
            break
    return total


async def oldest_due(asker: Asker, search: Search) -> int | None:
    """Return since when the job is due that has been so for longest; None if none is."""
    first, last = search.priorities[0], search.priorities[-1]
    due: list[bytes] = await asker.ask("oldest", search.queue, first, last)
    return min((int(moment) for moment in due), default=None)


async def first_due(aside: Asker, queues: Sequence[str], levels: int) -> dict[str, list[int | None]]:
    """Return when the first PENDING job of each priority falls due, or did, by queue; see ``Shard``."""
    found: dict[str, list[int | None]] = {}
    for start in range(0, len(queues), _QUEUES_AT_ONCE):
        some = queues[start : start + _QUEUES_AT_ONCE]
        _, *dues = await aside.ask("first_due", ANY_QUEUE, levels, *some)
        found |= {queue: due_times(due, levels) for queue, due in zip(some, dues, strict=True) if due is not None}
    return found


async def scan(asker: Asker, search: Search, limit: int, position: Position | None) -> Page:
    """Return the next jobs that match, latest run_after first, without their bodies."""
    found = [
        one for priority in search.priorities async for one in matching(asker, search, priority, limit + 1, position)
    ]
    found.sort(key=lambda one: one.rank, reverse=True)
    shown = found[:limit]
    if len(found) <= limit or not shown:
        return Page([one.record for one in shown], None)
    return Page([one.record for one in shown], Position(shown[-1].record.run_after_ms, shown[-1].local_id))


async def matching(
    asker: Asker, search: Search, priority: int, wanted: int, position: Position | None = None
) -> AsyncIterator[Found]:
    """Yield up to ``wanted`` jobs of one priority, latest run_after first."""
    if wanted <= 0:
        return
    async for some in pages(asker, search, priority, wanted, position):
        for found in some:
            yield found
            wanted -= 1
            if not wanted:
                return


async def pages(
    asker: Asker, search: Search, priority: int, wanted: int, position: Position | None = None
) -> AsyncIterator[list[Found]]:
    """Yield jobs of one priority, latest run_after first, some at a time, until nobody wants more."""
    at_once = AT_ONCE if search.pattern else min(wanted, AT_ONCE)
    walk = _held if search.which.state == IN_PROGRESS else _pages
    async for some in walk(asker, search, priority, at_once, position):
        yield await _with_pattern(asker, search, some)


async def _pages(
    asker: Asker, search: Search, priority: int, at_once: int, position: Position | None
) -> AsyncIterator[list[Found]]:
    now: int | None = None
    run_after, local_id, _ = position or ("", "", "")
    while True:
        now, some = await _read(
            asker, search, now, "page", KINDS[search.which.state], priority, search.time, run_after, local_id, at_once
        )
        yield some
        if len(some) < at_once:
            return
        run_after, local_id = some[-1].record.run_after_ms, some[-1].local_id


async def _held(
    asker: Asker, search: Search, priority: int, at_once: int, position: Position | None
) -> AsyncIterator[list[Found]]:
    """Claimed jobs: few enough, as workers hold them, to be all read and put in order here."""
    now: int | None = None
    cursor: Any = "0"
    found: dict[int, Found] = {}
    while True:
        shown, *columns, cursor = await asker.ask("held", search.queue, cursor, AT_ONCE, priority, at=now)
        now = int(shown)
        found.update((one.local_id, one) for one in _jobs(asker, search, *columns))
        if cursor == b"0":
            break
    ranked = sorted((one for one in found.values() if _is_wanted(one, search, now, position)), key=_rank, reverse=True)
    for start in range(0, len(ranked), at_once):
        yield ranked[start : start + at_once]


def _rank(one: Found) -> tuple[float, int]:
    return one.rank


def _is_wanted(one: Found, search: Search, now: int, position: Position | None) -> bool:
    if position is not None and one.rank >= (float(position.run_after_ms), position.local_id):
        return False
    return search.which.is_future is None or search.which.is_future == (one.record.run_after_ms > now)


async def _read(asker: Asker, search: Search, now: int | None, script: str, *arguments: Any) -> tuple[int, list[Found]]:
    shown, *columns = await asker.ask(script, search.queue, *arguments, at=now)
    return int(shown), _jobs(asker, search, *columns)


def _jobs(asker: Asker, search: Search, *columns: Any) -> list[Found]:
    head = f"{search.queue}:s{asker.name}:p"
    return [
        read_job(head, member, line, status, key)
        for member, line, status, key in zip(*columns, strict=True)
        if line is not None
    ]


async def _with_pattern(asker: Asker, search: Search, found: list[Found]) -> list[Found]:
    pattern = search.pattern
    if pattern is None:
        return found
    matches: list[Found] = []
    for some in _by_size(found):
        bodies = await asker.ask("bodies", search.queue, pack([one.local_id for one in some]))
        matches += await asyncio.to_thread(_matches, pattern, some, bodies)
    return matches


def _matches(pattern: BodyPattern, found: list[Found], bodies: list[bytes | None]) -> list[Found]:
    return [one for one, body in zip(found, bodies, strict=True) if body is not None and pattern.matches(body)]


def _by_size(found: list[Found]) -> list[list[Found]]:
    """Split so that not too many bytes are read at once."""
    groups: list[list[Found]] = []
    room = 0
    for one in found:
        room -= one.body_bytes
        if room < 0 or not groups:
            groups.append([])
            room = _BODY_BYTES_AT_ONCE - one.body_bytes
        groups[-1].append(one)
    return groups
