"""The verbs by which operators and the monitor change jobs."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import Position
from pinlater.server.backends.batches import STEP_JOBS, change_in_steps
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.records import Collected, Expired, JobFilter, Once
from pinlater.server.backends.search import BODY, JobSearch, Queue, position_of
from pinlater.server.backends.sqlite import maintenance
from pinlater.server.backends.sqlite.only_shard import OnlyServer, checked
from pinlater.server.backends.sqlite.readers import Readers
from pinlater.server.backends.sqlite.reads import PAGE_BODIES, page
from pinlater.server.backends.sqlite.writer import Writer
from pinlater.server.backends.store import queue_not_found
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.clock import milliseconds_since


class _DeletionCursor(NamedTuple):
    """Where the readers continue; ``position`` None is the start of a priority."""

    search: JobSearch
    pattern: BodyPattern | None
    priority: int
    at_once: int
    position: Position | None = None


class OperatorVerbs(OnlyServer):
    """The part of the SQLite store that retries, deletes, ends and collects jobs."""

    _queues: dict[str, Queue]
    _writer: Writer
    _readers: Readers
    now_ms: Callable[[], int]
    _options: StoreOptions
    _renewals_failed_at: float

    def _named(self, queue: str) -> Queue:
        try:
            return self._queues[queue]
        except KeyError:
            raise queue_not_found(queue) from None

    def _names_by_id(self) -> dict[int, str]:
        return {queue.id: queue.name for queue in self._queues.values()}

    def _search(self, queue: str, which: JobFilter) -> JobSearch:
        return JobSearch(self._named(queue), which, self.now_ms(), self._options.regex_seconds)

    async def retry_failed_jobs(
        self, queue: str, priority: int, attempts: int, run_after_ms: int | None, limit: int, *, once: Once = None
    ) -> int:
        request = maintenance.SqliteRetryRequest(self._named(queue).id, priority, attempts, run_after_ms, limit, once)
        while True:
            moved, is_over = await self._writer.submit(maintenance.retry, (request,))
            if is_over:
                return moved
            request = request._replace(so_far=moved)

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: Once = None) -> int:
        search = self._search(queue, which)
        pattern = await asyncio.to_thread(search.pattern)

        async def delete(ids: Sequence[int], so_far: int) -> int:
            request = maintenance.DeleteRequest(search.queue.id, which.state, ids, limit, once, so_far)
            return await self._writer.submit(maintenance.delete, (request,))

        found = _found(self._readers, search, pattern, limit)
        return await change_in_steps(found, delete, limit, nothing=(), pattern=pattern)

    async def retry_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], attempts: int, run_after_ms: int | None, *, once: Once = None
    ) -> int:
        request = maintenance.RetryTheseRequest(self._named(queue).id, checked(jobs), attempts, run_after_ms, once)
        return await self._writer.submit(maintenance.retry_these, (request,))

    async def schedule_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], run_after_ms: int | None, *, once: Once = None
    ) -> int:
        request = self._named(queue).id, checked(jobs), run_after_ms, once
        return await self._writer.submit(maintenance.schedule, request)

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: Once = None
    ) -> int:
        request = self._named(queue).id, checked(jobs), state, once
        return await self._writer.submit(maintenance.delete_these, request)

    async def reap_expired(
        self, limit: int, *, server_age_ms: int, quiet_ms: int, asked_at: float | None = None
    ) -> list[Expired]:
        asked_ms = self.now_ms() - milliseconds_since(asked_at)
        # While the disk was full, no claim could be renewed: as after a start of the server, give their holders time.
        age_ms = int(min(server_age_ms, (time.monotonic() - self._renewals_failed_at) * 1000))
        reaped = await self._writer.submit(maintenance.reap, (asked_ms, limit, age_ms, quiet_ms))
        names = self._names_by_id()
        return [Expired(names[queue_id], retried, failed) for queue_id, retried, failed in reaped if queue_id in names]

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        collected = await self._writer.submit(maintenance.collect, (succeeded_ttl_ms, failed_ttl_ms, limit))
        names = self._names_by_id()
        return [
            Collected(names[queue_id], succeeded, failed)
            for queue_id, succeeded, failed in collected
            if queue_id in names
        ]


async def _found(
    readers: Readers, search: JobSearch, pattern: BodyPattern | None, limit: int
) -> AsyncIterator[Sequence[int]]:
    """Yield ids of jobs that match, some at a time."""
    at_once = PAGE_BODIES if pattern else min(limit, STEP_JOBS)
    for priority in search.priorities if at_once else ():
        walk: _DeletionCursor | None = _DeletionCursor(search, pattern, priority, at_once)
        while walk is not None:
            ids, walk = await readers.run(_look, walk)
            if ids:
                yield ids


def _look(connection: sqlite3.Connection, walk: _DeletionCursor) -> tuple[list[int], _DeletionCursor | None]:
    """Return the ids of the matching jobs among the next ones, and where to continue; None at the end."""
    search, pattern, priority, at_once, position = walk
    rows = page(connection, search, priority, at_once, position)
    ids = [row[0] for row in rows if pattern is None or pattern.matches(row[BODY])]
    return ids, None if len(rows) < at_once else walk._replace(position=position_of(rows[-1]))
