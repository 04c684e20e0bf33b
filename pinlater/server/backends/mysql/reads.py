"""Reads of committed jobs, such as peek, lookup, count and scan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pinlater.model.attempts import DequeuedJob
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.batches import STEP_JOBS
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.body_walk import BodyWalk, SearchedJob
from pinlater.server.backends.key_turns import job_key
from pinlater.server.backends.mysql import failure_groups
from pinlater.server.backends.mysql.candidates import SMALL_BODY_BYTES, Candidate
from pinlater.server.backends.mysql.children import parent_of
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.messages import read_waits
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.records import MAX_ANSWER_BYTES, RETRYING_COUNTED, JobFilter, StoreSize
from pinlater.server.backends.search import BODY, JobSearch, Queue, position_of
from pinlater.server.backends.sharded import DuePriorities
from pinlater.server.backends.store_options import StoreOptions

_PAGE_BODIES = 50
"""Bodies may be large, so a page has this many jobs until one page has shown that they are small."""

_SMALL_PAGE_BYTES = 100_000

_QUEUES_PAGE = 500

_PRIORITY, _QUEUE, _FAILURE_GROUP = 2, 12, -2
"""Places of columns in the row of a job; see ``_record``."""


class MysqlReads:
    """The part of a shard that reads jobs."""

    _database: Database
    _options: StoreOptions
    _queues: MysqlQueues

    async def size(self) -> StoreSize:
        """Return the size of the shard's tables by the database's statistics; the free space is unknown."""
        [(used,)] = await self._database.rows(self._database.queries.bind("size"))
        return StoreSize(int(used))

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[DequeuedJob]:
        at, bind, now = await self._queues.get(queue), self._database.queries.bind, self._database.now_ms()

        async def read(connection: MysqlConnection) -> list[DequeuedJob]:
            found: list[Candidate] = []
            for priority, prefix in enumerate(at.prefixes, 1):
                values = {"queue": at.id, "priority": priority, "now": now, "small": SMALL_BODY_BYTES}
                query = bind("peek_jobs", limit=limit - len(found), **values)
                found += [Candidate(prefix, *row) for row in (await connection.run(query))[0].rows]
            end, _ = end_of_answer([job.size for job in found], 0, limit, max_bytes)
            large = sorted(job.id for job in found[:end] if job.body is None)
            bodies = dict((await connection.run(bind("job_bodies", ids=large)))[0].rows) if large else {}
            return [job.claimed(bodies) for job in found[:end] if job.body is not None or job.id in bodies]

        return await self._database.read(read)

    async def lookup_jobs(
        self, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
    ) -> list[JobRecord | None]:
        database, queues = self._database, await self._queues.find([job.queue for job in jobs])
        ids = sorted({job.local_id for job in jobs if job.queue in queues})
        page_size = _PAGE_BODIES if body_bytes or include_result else STEP_JOBS
        values = {"body_bytes": body_bytes, "has_result": include_result}
        found: dict[int, Any] = {}

        async def read(connection: MysqlConnection) -> None:
            for start in range(0, len(ids), page_size):
                page = ids[start : start + page_size]
                [(rows, _, _)] = await connection.run(database.queries.bind("lookup_jobs", ids=page, **values))
                found.update((row[0], row) for row in rows)

        if ids:
            await database.read(read)
        return [_matching_record(database, queues.get(job.queue), job, found.get(job.local_id)) for job in jobs]

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        database, search, cap = self._database, await self._search(queue, which), self._options.count_limit
        if which.body_regex:
            return len(await _matching(database, search, cap))
        if not which.skips_retrying:
            return sum(await _count_levels(database, search, [cap] * len(search.priorities)))
        failed = search._replace(which=which._replace(is_retrying=True))
        retrying = await _count_levels(database, failed, [RETRYING_COUNTED * cap] * len(search.priorities))
        pending = await _count_levels(database, search, [some + cap for some in retrying])
        return sum(max(number - some, 0) for number, some in zip(pending, retrying, strict=True))

    async def count_running(self, queue: str) -> int:
        at = await self._queues.get(queue)
        [(running,)] = await self._database.rows(self._database.queries.bind("running_jobs", queue=at.id))
        return int(running)

    async def states_in_use(self) -> dict[str, set[int]]:
        rows = await self._database.rows(self._database.queries.bind("states_in_use"))
        return {name: {state for state, is_used in enumerate(used) if is_used} for name, *used in rows}

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        return {queue: due.first_due_ms for queue, due in (await self.due_priorities(queues)).items()}

    async def due_priorities(self, queues: Sequence[str]) -> dict[str, DuePriorities]:
        database, levels = self._database, self._options.priority_levels
        found: dict[str, list[int | None]] = {}
        for start in range(0, len(queues), _QUEUES_PAGE):
            names = [queue.encode() for queue in queues[start : start + _QUEUES_PAGE]]
            statement = database.queries.bind("first_due", levels=range(1, levels + 1), names=names)
            for name, priority, due_ms in await database.rows(statement):
                found.setdefault(name, [None] * levels)[priority - 1] = due_ms
        now = database.now_ms()
        return {name: DuePriorities.at(now, dues) for name, dues in found.items()}

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        database, search = self._database, (await self._search(queue, which))._replace(is_oldest_first=oldest_first)
        pattern = await asyncio.to_thread(search.pattern)
        if pattern is not None and limit:
            walk: BodyWalk[Any] = BodyWalk(pattern, search.priorities, limit, position, oldest_first)
            return await _walk_bodies(database, search, walk)
        found = [
            (position_of(row), _record(database, search.queue, row)._replace(body=None))
            for row in await _matching(database, search, limit + 1, position)
        ]
        found.sort(key=lambda entry: entry[0], reverse=not oldest_first)
        last = found[limit - 1][0] if 0 < limit < len(found) else None
        return RecordPage([record for _, record in found[:limit]], last)

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        known = await (self._queues.find(queues) if queues else self._queues.all())
        return await failure_groups.read(self._database, {at.id: at.name for at in known.values()}, limit)

    async def _search(self, queue: str, which: JobFilter) -> JobSearch:
        at = await self._queues.get(queue)
        return JobSearch(at, which, self._database.now_ms(), self._options.regex_seconds)


def _matching_record(database: Database, queue: Queue | None, job: JobDescriptor, row: Any) -> JobRecord | None:
    if row is None or queue is None or (row[_PRIORITY], row[_QUEUE]) != (job.priority, queue.id):
        return None
    return _record(database, queue, row)


def _record(database: Database, queue: Queue, row: Any) -> JobRecord:
    local_id, state, priority, allowed, remaining, status, created_at, run_after, updated_at, claim, *rest = row
    body, unique_key, _, key, key_limit, rate, result, is_cancelled, *parent, waits_for, group, run_ms = rest
    return JobRecord(
        f"{queue.name}:s{database.shard}:p{priority}:{local_id}",
        state,
        allowed,
        remaining,
        status,
        created_at,
        run_after,
        updated_at,
        None if claim is None else claim.decode(),
        body,
        None if unique_key is None else unique_key.decode(),
        None if key is None else job_key(key.decode(), key_limit, None if rate is None else rate.decode()),
        result,
        bool(is_cancelled),
        parent_of(*parent),
        read_waits(waits_for),
        group,
        run_ms,
    )


def _kind(search: JobSearch) -> str:
    """Return the kind of search, which is the last part of the names of its statements."""
    if search.which.failure_group is not None:
        return "failing"
    if search.which.key is not None:
        return "keyed"
    return "retrying" if search.which.is_retrying else "jobs"


def _values(search: JobSearch) -> dict[str, int | bytes | None]:
    """Return the values that the statements of every kind take."""
    which = search.which
    key = None if which.key is None else which.key.encode()
    return {"queue": search.queue.id, "state": which.state, "failure_group": which.failure_group, "key": key}


async def _count_levels(database: Database, search: JobSearch, caps: Sequence[int]) -> list[int]:
    """Return how many jobs of each priority match, up to its cap."""
    first, last = search.bounds
    values = _values(search) | {"first": first, "last": last}
    levels = zip(search.priorities, caps, strict=True)
    name = f"count_{_kind(search)}"
    queries = [database.queries.bind(name, priority=priority, cap=cap, **values) for priority, cap in levels]
    results = await database.read(lambda connection: connection.run(*queries))
    return [int(result.rows[0][0]) for result in results]


async def _walk_bodies(database: Database, search: JobSearch, walk: BodyWalk[Any]) -> RecordPage:
    while (priority := walk.wanted) is not None:
        position, at_once = walk.position(priority), walk.page_size(priority)
        statement = _page_statement(database, search, priority, position, at_once, has_body=True)
        jobs = [SearchedJob(position_of(row), row[BODY], row) for row in await database.rows(statement)]
        await asyncio.to_thread(walk.add, priority, jobs, is_last=len(jobs) < at_once)
    return walk.page(lambda row: _record(database, search.queue, row)._replace(body=None))


async def matching_ids(
    database: Database, search: JobSearch, pattern: BodyPattern | None, limit: int
) -> AsyncIterator[list[int]]:
    """Yield pages of ids of matching jobs."""
    for priority in search.priorities:
        async for rows in _pages(database, search, priority, limit, None, has_body=pattern is not None):
            found = rows if pattern is None else await asyncio.to_thread(_matching_rows, pattern, rows)
            if found:
                yield [row[0] for row in found]


async def _matching(database: Database, search: JobSearch, limit: int, position: Position | None = None) -> list[Any]:
    """Return the rows of up to ``limit`` matching jobs of each priority, in the order of the search."""
    pattern = await asyncio.to_thread(search.pattern)
    found: list[Any] = []
    for priority in search.priorities:
        of_priority: list[Any] = []
        async for rows in _pages(database, search, priority, limit, position, has_body=pattern is not None):
            wanted = [row for row in rows if row[_FAILURE_GROUP] is None] if search.which.skips_retrying else rows
            of_priority += wanted if pattern is None else await asyncio.to_thread(_matching_rows, pattern, wanted)
            if len(of_priority) >= limit:
                break
        found += of_priority[:limit]
    return found


async def _pages(
    database: Database, search: JobSearch, priority: int, limit: int, position: Position | None, *, has_body: bool
) -> AsyncIterator[list[Any]]:
    """Yield pages of rows; each page borrows a connection separately, so that other calls get their turn."""
    page_size = _PAGE_BODIES if has_body else min(limit, STEP_JOBS)
    while page_size:
        statement = _page_statement(database, search, priority, position, page_size, has_body=has_body)
        rows = await database.rows(statement)
        yield rows
        if len(rows) < page_size:
            return
        position = position_of(rows[-1])
        if has_body:
            is_small = sum(len(row[BODY]) for row in rows) < _SMALL_PAGE_BYTES
            page_size = STEP_JOBS if is_small else _PAGE_BODIES


def _page_statement(
    database: Database, search: JobSearch, priority: int, position: Position | None, limit: int, *, has_body: bool
) -> Any:
    """Return the statement that reads the next rows of a priority."""
    name = f"scan_{_kind(search)}_oldest" if search.is_oldest_first else f"scan_{_kind(search)}"
    values = _values(search) | {"priority": priority, "end": search.end, "has_body": has_body}
    run_after, local_id = search.start(position)
    return database.queries.bind(name, run_after=run_after, id=local_id, limit=limit, **values)


def _matching_rows(pattern: BodyPattern, rows: Sequence[Any]) -> list[Any]:
    return [row for row in rows if pattern.matches(row[BODY])]
