"""Deletion by operators: the readers find matching jobs, the writer deletes them, some at a time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from pinlater.model.jobs import Position
from pinlater.server.backends.batches import STEP_JOBS, change_in_steps
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.records import Once
from pinlater.server.backends.search import JobSearch
from pinlater.server.backends.sqlite import maintenance
from pinlater.server.backends.sqlite.readers import Readers
from pinlater.server.backends.sqlite.reads import PAGE_BODIES, page
from pinlater.server.backends.sqlite.writer import Writer


class _DeletionCursor(NamedTuple):
    """Where the readers continue; ``position`` None is the start of a priority."""

    search: JobSearch
    pattern: BodyPattern | None
    priority: int
    at_once: int
    position: Position | None = None


async def delete(readers: Readers, writer: Writer, search: JobSearch, limit: int, once: Once) -> int:
    """Delete up to ``limit`` jobs that match; return how many."""
    pattern = await asyncio.to_thread(search.pattern)

    async def remove(ids: Sequence[int], so_far: int) -> int:
        request = maintenance.DeleteRequest(search.queue.id, search.which.state, ids, limit, once, so_far)
        removed: int = await writer.submit(maintenance.delete, request)
        return removed

    return await change_in_steps(_found(readers, search, pattern, limit), remove, limit, nothing=(), pattern=pattern)


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
    ids = [row[0] for row in rows if pattern is None or pattern.matches(row[10])]
    return ids, None if len(rows) < at_once else walk._replace(position=Position(rows[-1][7], rows[-1][0]))
