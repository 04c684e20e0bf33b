"""Reading: peek, lookup, count, scan, on what is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.batches import STEP_JOBS
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.mysql.claim import Candidate, ClaimRequest, share_out
from pinlater.server.backends.mysql.connection import Connection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.records import RETRIES_LOOKED_AT, ClaimedJob, JobRecord, Page, Position, StoreSize
from pinlater.server.backends.search import JobSearch, Queue

_BEGIN, _END = -(2**63), 2**63 - 1
_PAGE_BODIES = 50
"""Bodies may be large: so many at once, until a page has shown that they are not."""

_SMALL_PAGE_BYTES = 100_000

_QUEUES_AT_ONCE = 500


class Looker:
    """Looks at jobs.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def peek(self, queue: Queue, limit: int, max_bytes: int) -> list[ClaimedJob]:
        """Return what a dequeue would hand out."""

        async def look(connection: Connection) -> list[ClaimedJob]:
            found: list[Candidate] = []
            for priority, prefix in enumerate(queue.prefixes, 1):
                rows = await self._rows(
                    connection,
                    "peek_jobs",
                    queue=queue.id,
                    priority=priority,
                    now=self._database.now_ms(),
                    limit=limit - len(found),
                )
                found += [Candidate(prefix, *row) for row in rows]
            [share] = share_out(found, [ClaimRequest(limit, max_bytes, b"", 0, want_next_due=False, max_running=None)])
            ids = sorted(job.id for job in share.jobs)
            bodies = dict(await self._rows(connection, "bodies_of_jobs", ids=ids)) if ids else {}
            return [job.with_body(bodies[job.id]) for job in share.jobs if job.id in bodies]

        return await self._database.read(look)

    async def lookup(
        self, queues: Mapping[str, Queue], jobs: Sequence[JobDescriptor], *, include_body: bool
    ) -> list[JobRecord | None]:
        """Return the records in the order of ``jobs``; None for those not there."""
        ids = sorted({job.local_id for job in jobs if job.queue in queues})
        at_once = _PAGE_BODIES if include_body else STEP_JOBS
        found: dict[int, Any] = {}

        async def look(connection: Connection) -> None:
            for start in range(0, len(ids), at_once):
                rows = await self._rows(
                    connection, "lookup_jobs", ids=ids[start : start + at_once], has_body=include_body
                )
                found.update((row[0], row) for row in rows)

        if ids:
            await self._database.read(look)
        return [self._looked_up(queues.get(job.queue), job, found.get(job.local_id)) for job in jobs]

    def _looked_up(self, queue: Queue | None, job: JobDescriptor, row: Any) -> JobRecord | None:
        if row is None or queue is None or (row[2], row[12]) != (job.priority, queue.id):
            return None
        return self._record(queue, row)

    def _record(self, queue: Queue, row: Any) -> JobRecord:
        local_id, state, priority, allowed, remaining, status, created_at, run_after, updated_at, claim, *rest = row
        body, key, _ = rest
        return JobRecord(
            f"{queue.name}:s{self._database.shard}:p{priority}:{local_id}",
            state,
            allowed,
            remaining,
            status,
            created_at,
            run_after,
            updated_at,
            None if claim is None else claim.decode(),
            body,
            None if key is None else key.decode(),
        )

    async def count(self, search: JobSearch, cap: int) -> int:
        """Return how many jobs match, at most ``cap`` per priority."""
        if search.which.body_regex:
            return len(await self._matching(search, cap))
        first, last = search.bounds
        name = "count_retried" if search.which.is_retry else "count_jobs"
        cap = min(cap, RETRIES_LOOKED_AT) if search.which.is_retry else cap

        async def look(connection: Connection) -> int:
            results = await connection.run(
                *(
                    self._database.queries.bind(
                        name,
                        queue=search.queue.id,
                        state=search.which.state,
                        priority=priority,
                        first=first,
                        last=last,
                        cap=cap,
                    )
                    for priority in search.priorities
                )
            )
            return sum(int(result.rows[0][0]) for result in results)

        return await self._database.read(look)

    async def size(self) -> StoreSize:
        """Return what the tables of the shard take by the database's own statistics; it does not tell of its disk."""
        [(used,)] = await self._database.rows(self._database.queries.bind("size"))
        return StoreSize(int(used))

    async def oldest_due(self, search: JobSearch) -> int | None:
        """Return since when the job is due that has been so for longest; None if none is."""

        async def look(connection: Connection) -> int | None:
            results = await connection.run(
                *(
                    self._database.queries.bind("first_pending", queue=search.queue.id, priority=priority, floor=_BEGIN)
                    for priority in search.priorities
                )
            )
            first = [int(result.rows[0][0]) for result in results if result.rows]
            return min((due_ms for due_ms in first if due_ms <= search.now), default=None)

        return await self._database.read(look)

    async def first_due(self, queues: Sequence[str], levels: int) -> dict[str, list[int | None]]:
        """Return when the first PENDING job of each priority falls due, or did, by queue."""
        found: dict[str, list[int | None]] = {}
        for start in range(0, len(queues), _QUEUES_AT_ONCE):
            names = [queue.encode() for queue in queues[start : start + _QUEUES_AT_ONCE]]
            statement = self._database.queries.bind("first_due", levels=range(1, levels + 1), names=names)
            for name, priority, due_ms in await self._database.rows(statement):
                found.setdefault(name, [None] * levels)[priority - 1] = due_ms
        return found

    async def scan(self, search: JobSearch, limit: int, position: Position | None) -> Page:
        """Return the next jobs that match, latest run_after first, without their bodies."""
        found = [
            (Position(row[7], row[0]), self._record(search.queue, row)._replace(body=None))
            for row in await self._matching(search, limit + 1, position)
        ]
        found.sort(key=lambda entry: entry[0], reverse=True)
        last = found[limit - 1][0] if 0 < limit < len(found) else None
        return Page([record for _, record in found[:limit]], last)

    async def ids_of(self, search: JobSearch, pattern: BodyPattern | None, limit: int) -> AsyncIterator[list[int]]:
        """Yield ids of jobs that match, some at a time, until nobody wants more."""
        for priority in search.priorities:
            async for rows in self._pages(search, priority, limit, None, has_body=pattern is not None):
                found = rows if pattern is None else await asyncio.to_thread(_only_matching, pattern, rows)
                if found:
                    yield [row[0] for row in found]

    async def _matching(self, search: JobSearch, wanted: int, position: Position | None = None) -> list[Any]:
        """Return rows of up to ``wanted`` jobs of each priority, latest run_after first."""
        pattern = await asyncio.to_thread(search.pattern)
        found: list[Any] = []
        for priority in search.priorities:
            mine: list[Any] = []
            async for rows in self._pages(search, priority, wanted, position, has_body=pattern is not None):
                mine += rows if pattern is None else await asyncio.to_thread(_only_matching, pattern, rows)
                if len(mine) >= wanted:
                    break
            found += mine[:wanted]
        return found

    async def _pages(
        self, search: JobSearch, priority: int, wanted: int, position: Position | None, *, has_body: bool
    ) -> AsyncIterator[list[Any]]:
        """Yield rows page by page; between two pages the connection is free for others."""
        at_once = _PAGE_BODIES if has_body else min(wanted, STEP_JOBS)
        first, last = search.bounds
        run_after, local_id, _ = min(position or Position(last, _END), Position(last, _END))
        while at_once:
            statement = self._database.queries.bind(
                "scan_jobs",
                queue=search.queue.id,
                state=search.which.state,
                priority=priority,
                first=first,
                before_run_after=run_after,
                before_id=local_id,
                has_body=has_body,
                limit=at_once,
            )
            rows = await self._database.rows(statement)
            yield rows
            if len(rows) < at_once:
                return
            local_id, run_after = rows[-1][0], rows[-1][7]
            if has_body:
                is_small = sum(len(row[10]) for row in rows) < _SMALL_PAGE_BYTES
                at_once = STEP_JOBS if is_small else _PAGE_BODIES

    async def _rows(self, connection: Connection, name: str, **values: Any) -> Sequence[tuple[Any, ...]]:
        return (await connection.run(self._database.queries.bind(name, **values)))[0].rows


def _only_matching(pattern: BodyPattern, rows: Sequence[Any]) -> list[Any]:
    return [row for row in rows if pattern.matches(row[10])]
