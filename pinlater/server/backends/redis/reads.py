"""Reads such as lookup, count and scan; page by page, so that no script blocks the others for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.body_walk import BodyWalk, SearchedJob
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.records import ALL_PRIORITIES, JobFilter
from pinlater.server.backends.redis import failure_groups
from pinlater.server.backends.redis.lifecycle import pack, pack_ids
from pinlater.server.backends.redis.queues import RedisQueues
from pinlater.server.backends.redis.records import KINDS, StoredJob, parse_job
from pinlater.server.backends.redis.script_calls import ALL_QUEUES, PAGE_JOBS, ScriptRunner
from pinlater.server.backends.sharded import MOST_READ_TOGETHER, DuePriorities
from pinlater.server.backends.store_options import StoreOptions

_ANY_CLAIMED = JobFilter(IN_PROGRESS)

_BODY_PAGE_BYTES = 4_000_000
_LOOKUP_BODIES = 50
"""Jobs whose bodies one lookup reads, few since each may be large."""

_CLAIMED_OF_KEY = 10_000
"""Most claimed jobs of one key that a scan reads and sorts."""

_QUEUES_PAGE = 200

_RANK = attrgetter("rank")


class RedisSearch(NamedTuple):
    """The jobs that a count, scan or deletion selects.

    Attributes:
        queue: name of the queue.
        which: filter for its jobs.
        levels: priorities are 1 to this.
        pattern: what bodies have to match; None: any body.
        is_oldest_first: whether the earliest run_after comes first, instead of the latest.
    """

    queue: str
    which: JobFilter
    levels: int
    pattern: BodyPattern | None
    is_oldest_first: bool = False

    @property
    def priorities(self) -> Sequence[int]:
        if self.which.failure_group is not None:
            return [ALL_PRIORITIES]
        return range(1, self.levels + 1) if self.which.priority is None else [self.which.priority]

    @property
    def kind(self) -> str:
        """The sorted sets to read, in the form that scripts take: one per priority, or just one for a failure group."""
        if self.which.failure_group is not None:
            return f"g{self.which.failure_group}:{KINDS[self.which.state]}"
        return "r" if self.which.is_retrying else KINDS[self.which.state]

    @property
    def time(self) -> str:
        """The filter by time, in the form that scripts take."""
        if self.which.waits_for_key:
            return "key"
        return {None: "", True: "future", False: "due"}[self.which.is_future]


class RedisReads:
    """The part of a shard that reads jobs."""

    _slow_scripts: ScriptRunner
    _scripts: ScriptRunner
    _levels: int
    _options: StoreOptions
    _queues: RedisQueues

    async def queue_names(self) -> set[str]:
        return {*await self._queues.settings()}

    async def lookup_jobs(
        self, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
    ) -> list[JobRecord | None]:
        page_size = _LOOKUP_BODIES if body_bytes or include_result else PAGE_JOBS
        options = [str(body_bytes), "1" if include_result else ""]
        places = grouped((job.queue, place) for place, job in enumerate(jobs))
        records: list[JobRecord | None] = [None] * len(jobs)

        async def of_queue(queue: str, own: Sequence[int]) -> None:
            with suppress(QueueNotFound):
                for start in range(0, len(own), page_size):
                    page = own[start : start + page_size]
                    found = await _lookup_page(self._slow_scripts, queue, [jobs[place] for place in page], options)
                    for place, record in zip(page, found, strict=True):
                        records[place] = record

        await asyncio.gather(*(of_queue(queue, own) for queue, own in places.items()))
        return records

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        search = await self._search(queue, which)
        if search.pattern is None and which.state != IN_PROGRESS:
            return await _count_unclaimed(self._slow_scripts, search, self._options.count_limit)
        if which == _ANY_CLAIMED:
            return min(await self.count_running(queue), self._options.count_limit * self._levels)
        total = 0
        for priority in search.priorities:
            found = _matching(self._slow_scripts, search, priority, self._options.count_limit)
            total += len([job async for job in found])
        return total

    async def count_running(self, queue: str) -> int:
        return int(await self._slow_scripts.run("count_claimed", queue))

    async def states_in_use(self) -> dict[str, set[int]]:
        queues = sorted(await self.queue_names())
        found: dict[str, set[int]] = {}
        for start in range(0, len(queues), _QUEUES_PAGE):
            names = queues[start : start + _QUEUES_PAGE]
            rows = await self._slow_scripts.run_for_shard("states_in_use", ALL_QUEUES, self._levels, *names)
            found |= {name: set(states) for name, states in zip(names, rows, strict=True) if states is not None}
        return found

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        return {queue: due.first_due_ms for queue, due in (await self.due_priorities(queues)).items()}

    async def due_priorities(self, queues: Sequence[str]) -> dict[str, DuePriorities]:
        scripts = self._scripts if len(queues) <= MOST_READ_TOGETHER else self._slow_scripts
        found: dict[str, DuePriorities] = {}
        for start in range(0, len(queues), _QUEUES_PAGE):
            names = queues[start : start + _QUEUES_PAGE]
            now, *dues = await scripts.run_for_shard("first_due", ALL_QUEUES, self._levels, *names)
            for name, times in zip(names, dues, strict=True):
                if times is not None:
                    found[name] = DuePriorities.at(int(now), [int(due_ms) if due_ms else None for due_ms in times])
        return found

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        scripts, search = self._slow_scripts, (await self._search(queue, which))._replace(is_oldest_first=oldest_first)
        if which.key is not None:
            return await _scan_key(scripts, search, which.key, limit, position)
        if search.pattern is not None and limit:
            walk: BodyWalk[StoredJob] = BodyWalk(search.pattern, search.priorities, limit, position, oldest_first)
            return await _walk_bodies(scripts, search, walk)
        found = [
            job
            for priority in search.priorities
            async for job in _matching(scripts, search, priority, limit + 1, position)
        ]
        found.sort(key=_RANK, reverse=not oldest_first)
        return _first(found, limit)

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        return await failure_groups.read(self._slow_scripts, queues, limit)

    async def _search(self, queue: str, which: JobFilter) -> RedisSearch:
        regex = which.body_regex
        pattern = await asyncio.to_thread(BodyPattern, regex, self._options.regex_seconds) if regex else None
        return RedisSearch(queue, which, self._levels, pattern)


async def _lookup_page(
    scripts: ScriptRunner, queue: str, jobs: Sequence[JobDescriptor], options: Sequence[str]
) -> list[JobRecord | None]:
    columns = await scripts.run("lookup_jobs", queue, pack_ids(jobs), *options)
    head = f"{queue}:s{scripts.name}:p"
    given = (column or [None] * len(jobs) for column in columns)
    return [_matching_record(head, job, row) for job, *row in zip(jobs, *given, strict=True)]


def _matching_record(head: str, job: JobDescriptor, row: Sequence[bytes | None]) -> JobRecord | None:
    result, body, line, *texts = row
    if line is None:
        return None
    found = parse_job(head, b" %d" % job.local_id, line, texts)
    return found.record._replace(body=body, result=result) if found.priority == job.priority else None


async def _count_unclaimed(scripts: ScriptRunner, search: RedisSearch, cap: int) -> int:
    async def levels(some: RedisSearch) -> list[int]:
        first, last = some.priorities[0], some.priorities[-1]
        counts: list[int] = await scripts.run("count_jobs", some.queue, some.kind, some.time, first, last)
        return counts

    failed = search._replace(which=search.which._replace(is_retrying=True))
    skipped = await levels(failed) if search.which.skips_retrying else [0] * len(search.priorities)
    counted = await levels(search)
    return sum(min(max(number - some, 0), cap) for number, some in zip(counted, skipped, strict=True))


def _first(found: list[StoredJob], limit: int) -> RecordPage:
    shown = found[:limit]
    return RecordPage([job.record for job in shown], _position(shown[-1]) if shown and len(found) > limit else None)


async def _scan_key(
    scripts: ScriptRunner, search: RedisSearch, key: str, limit: int, position: Position | None
) -> RecordPage:
    """Return the next page of jobs that have a key; at most ``_CLAIMED_OF_KEY`` claimed jobs are considered."""
    is_claimed = search.which.state == IN_PROGRESS
    run_after, local_id, _ = position or ("", "", "")
    at_once = _CLAIMED_OF_KEY if is_claimed else limit + 1
    order = ("oldest",) if search.is_oldest_first else ()
    columns = await scripts.run("scan_key", search.queue, key, search.which.state, run_after, local_id, at_once, *order)
    found = [
        job
        for job in _parse_jobs(scripts, search, *columns)
        if job.record.state == search.which.state and _is_behind(job, search, position)
    ]
    found.sort(key=_RANK, reverse=not search.is_oldest_first)
    return _first(found, limit)


async def _walk_bodies(scripts: ScriptRunner, search: RedisSearch, walk: BodyWalk[StoredJob]) -> RecordPage:
    while (priority := walk.wanted) is not None:
        at_once = walk.page_size(priority)
        page: list[StoredJob] = await anext(
            _page_source(search)(scripts, search, priority, at_once, walk.position(priority)), []
        )
        some = _by_size(page)[0] if page else []
        bodies = await scripts.run("read_bodies", search.queue, pack([job.local_id for job in some])) if some else ()
        jobs = [SearchedJob(_position(job), body, job) for job, body in zip(some, bodies, strict=True)]
        await asyncio.to_thread(walk.add, priority, jobs, is_last=len(some) == len(page) < at_once)
    return walk.page(attrgetter("record"))


def _position(job: StoredJob) -> Position:
    return Position(job.record.run_after_ms, job.local_id)


async def _matching(
    scripts: ScriptRunner, search: RedisSearch, priority: int, limit: int, position: Position | None = None
) -> AsyncIterator[StoredJob]:
    """Yield up to ``limit`` matching jobs of one priority, in the order of the search."""
    if limit <= 0:
        return
    async for page in pages(scripts, search, priority, limit, position):
        for job in page:
            yield job
            limit -= 1
            if not limit:
                return


async def pages(
    scripts: ScriptRunner, search: RedisSearch, priority: int, limit: int, position: Position | None = None
) -> AsyncIterator[list[StoredJob]]:
    """Yield pages of matching jobs of one priority, in the order of the search."""
    page_size = PAGE_JOBS if search.pattern else min(limit, PAGE_JOBS)
    async for page in _page_source(search)(scripts, search, priority, page_size, position):
        wanted = [job for job in page if job.record.failure_group is None] if search.which.skips_retrying else page
        yield await _match_bodies(scripts, search, wanted)


def _page_source(search: RedisSearch) -> Callable[..., AsyncIterator[list[StoredJob]]]:
    return _claimed_pages if search.which.state == IN_PROGRESS else _pages


async def _pages(
    scripts: ScriptRunner, search: RedisSearch, priority: int, page_size: int, position: Position | None
) -> AsyncIterator[list[StoredJob]]:
    now: int | None = None
    run_after, local_id, _ = position or ("", "", "")
    while True:
        which = (search.kind, priority or "", search.time, run_after, local_id, page_size)
        order = ("oldest",) if search.is_oldest_first else ()
        shown, *columns = await scripts.run("scan_jobs", search.queue, *which, *order, at=now)
        now, page = int(shown), _parse_jobs(scripts, search, *columns)
        yield page
        if len(page) < page_size:
            return
        run_after, local_id = page[-1].record.run_after_ms, page[-1].local_id


async def _claimed_pages(
    scripts: ScriptRunner, search: RedisSearch, priority: int, page_size: int, position: Position | None
) -> AsyncIterator[list[StoredJob]]:
    """Yield pages of claimed jobs; there are few enough to read and sort them all."""
    now: int | None = None
    cursor: Any = "0"
    found: dict[int, StoredJob] = {}
    while True:
        shown, cursor, *columns = await scripts.run("scan_claimed", search.queue, cursor, PAGE_JOBS, priority, at=now)
        now = int(shown)
        found.update((job.local_id, job) for job in _parse_jobs(scripts, search, *columns))
        if cursor == b"0":
            break
    ranked = [job for job in found.values() if _is_selected(job, search, now, position)]
    ranked.sort(key=_RANK, reverse=not search.is_oldest_first)
    for start in range(0, len(ranked), page_size):
        yield ranked[start : start + page_size]


def _is_behind(job: StoredJob, search: RedisSearch, position: Position | None) -> bool:
    if position is None:
        return True
    begin = (float(position.run_after_ms), position.local_id)
    return job.rank > begin if search.is_oldest_first else job.rank < begin


def _is_selected(job: StoredJob, search: RedisSearch, now: int, position: Position | None) -> bool:
    if not _is_behind(job, search, position):
        return False
    return search.which.is_future is None or search.which.is_future == (job.record.run_after_ms > now)


def _parse_jobs(scripts: ScriptRunner, search: RedisSearch, *columns: Any) -> list[StoredJob]:
    head = f"{search.queue}:s{scripts.name}:p"
    return [
        parse_job(head, member, line, texts) for member, line, *texts in zip(*columns, strict=True) if line is not None
    ]


async def _match_bodies(scripts: ScriptRunner, search: RedisSearch, found: list[StoredJob]) -> list[StoredJob]:
    pattern = search.pattern
    if pattern is None:
        return found
    matches: list[StoredJob] = []
    for group in _by_size(found):
        bodies = await scripts.run("read_bodies", search.queue, pack([job.local_id for job in group]))
        matches += await asyncio.to_thread(_matches, pattern, group, bodies)
    return matches


def _matches(pattern: BodyPattern, found: list[StoredJob], bodies: list[bytes | None]) -> list[StoredJob]:
    return [job for job, body in zip(found, bodies, strict=True) if body is not None and pattern.matches(body)]


def _by_size(found: list[StoredJob]) -> list[list[StoredJob]]:
    """Split jobs into groups whose bodies are small enough to be read at once."""
    groups: list[list[StoredJob]] = []
    bytes_left = 0
    for job in found:
        bytes_left -= job.body_bytes
        if bytes_left < 0 or not groups:
            groups.append([])
            bytes_left = _BODY_PAGE_BYTES - job.body_bytes
        groups[-1].append(job)
    return groups
