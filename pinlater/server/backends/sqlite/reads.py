"""Reads such as lookup, count and scan. They run in the readers' threads, and see what is committed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from pinlater.model.attempts import DequeuedJob
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.body_walk import BodyWalk, SearchedJob
from pinlater.server.backends.key_turns import job_key
from pinlater.server.backends.records import RETRYING_COUNTED, WHOLE_BODY, JobFilter
from pinlater.server.backends.search import BODY, JobSearch, Queue, position_of
from pinlater.server.backends.sqlite.children import parent_of
from pinlater.server.backends.sqlite.claimable import walk_claimable
from pinlater.server.backends.sqlite.messages import waits_of
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import id_list

_FAILURE_GROUP = -3
"""Place of the column in the row of a job; see ``_record``."""

_PAGE_ROWS = 500
PAGE_BODIES = 50
"""How many bodies are read at once to be searched, since they may be large."""

_SEARCHED_BYTES = 64 * 1024
"""How much of each body a page of a scan reads; longer bodies are read one by one."""


class _Rows(NamedTuple):
    """A query for jobs of one state: part of its name, and the parameters that follow the common ones."""

    kind: str
    more: tuple[int | str, ...]


def _rows_of(which: JobFilter) -> _Rows:
    if which.failure_group is not None:
        return _Rows("failing", (which.state, which.failure_group))
    if which.key is not None:
        return _Rows("keyed", (which.state, which.key))
    if which.state == PENDING:
        return _Rows("retrying" if which.is_retrying else "pending", ())
    return _Rows("claimed", ()) if which.state == IN_PROGRESS else _Rows("finished", (which.state,))


def peek(connection: sqlite3.Connection, queue: Queue, now: int, limit: int, max_bytes: int) -> list[DequeuedJob]:
    """Return the jobs that a dequeue would claim."""

    def rows(sql: str, parameters: Iterable[Any]) -> list[Any]:
        return connection.execute(sql, tuple(parameters)).fetchall()

    found = walk_claimable(rows, queue.id, queue.prefixes, now, limit=limit, max_bytes=max_bytes)
    return [job for prefix, claimable in found for job in claimable.with_bodies(rows, prefix)]


def lookup(
    connection: sqlite3.Connection,
    addresses: Sequence[tuple[Queue, int, int] | None],
    body_bytes: int,
    include_result: bool,
) -> list[JobRecord | None]:
    """Return the records at the addresses (queue, priority, id), None for jobs that do not exist.

    Each has up to ``body_bytes`` bytes of the body.
    """
    return [address and _lookup_one(connection, address, (body_bytes, include_result)) for address in addresses]


def _lookup_one(
    connection: sqlite3.Connection, address: tuple[Queue, int, int], wanted: tuple[int, bool]
) -> JobRecord | None:
    queue, priority, local_id = address
    row = connection.execute(QUERIES["lookup_job"], (queue.id, local_id, priority, *wanted)).fetchone()
    return None if row is None else _record(queue, row)


def _record(queue: Queue, row: Any) -> JobRecord:
    local_id, state, priority, *rest, key, limit, rate, is_cancelled, parent, waits, group, run_ms, result = row
    descriptor = f"{queue.name}:s1:p{priority}:{local_id}"
    head = descriptor, state, *rest, job_key(key, limit, rate)  # in the order of the record
    return JobRecord._make((*head, result, bool(is_cancelled), parent_of(parent), waits_of(waits), group, run_ms))


def count(connection: sqlite3.Connection, search: JobSearch, cap: int) -> int:
    """Count the jobs that match, up to ``cap`` of each priority."""
    if search.which.body_regex:
        return sum(1 for _ in _matching(connection, search, cap))
    if search.which.skips_retrying:
        return sum(_count_others(connection, search, priority, cap) for priority in search.priorities)
    return sum(_count_level(connection, search, priority, cap) for priority in search.priorities)


def _count_level(connection: sqlite3.Connection, search: JobSearch, priority: int, cap: int) -> int:
    kind, more = _rows_of(search.which)
    values = (search.queue.id, priority, *search.bounds, cap, *more)
    return int(connection.execute(QUERIES[f"count_{kind}"], values).fetchone()[0])


def _count_others(connection: sqlite3.Connection, search: JobSearch, priority: int, cap: int) -> int:
    """Count PENDING jobs that are not retrying, by subtraction: no index has exactly these."""
    failed = search._replace(which=search.which._replace(is_retrying=True))
    retrying = _count_level(connection, failed, priority, RETRYING_COUNTED * cap)
    return max(_count_level(connection, search, priority, retrying + cap) - retrying, 0)


def states_in_use(connection: sqlite3.Connection) -> dict[str, set[int]]:
    """Return in which states each queue has jobs."""
    rows = connection.execute(QUERIES["states_in_use"]).fetchall()
    return {name: {state for state, is_used in enumerate(used) if is_used} for name, *used in rows}


def first_due(connection: sqlite3.Connection, queues: Sequence[Queue]) -> dict[str, int | None]:
    """Return when the first PENDING job of each queue falls or fell due; None if none is PENDING."""
    if not queues:
        return {}
    names = {queue.id: queue.name for queue in queues}
    levels = range(1, len(queues[0].prefixes) + 1)
    [found] = connection.execute(QUERIES["first_due"], (id_list(names), id_list(levels))).fetchone()
    return {names[queue_id]: due_ms for queue_id, due_ms in json.loads(found)}


def scan(connection: sqlite3.Connection, search: JobSearch, limit: int, position: Position | None) -> RecordPage:
    """Return the next matching jobs, in the order of the search, without their bodies."""
    pattern = search.pattern()
    if pattern is not None and limit:
        order = search.is_oldest_first
        return _walk_bodies(connection, search, BodyWalk(pattern, search.priorities, limit, position, order))
    found = list(_matching(connection, search, limit + 1, position))
    found.sort(key=_rank, reverse=not search.is_oldest_first)
    last = _rank(found[limit - 1]) if len(found) > limit else None
    return RecordPage([record for _, record in found[:limit]], last)


def _walk_bodies(connection: sqlite3.Connection, search: JobSearch, walk: BodyWalk[Any]) -> RecordPage:
    while (priority := walk.wanted) is not None:
        at_once = walk.page_size(priority)
        rows = page(connection, search, priority, at_once, walk.position(priority), body_bytes=_SEARCHED_BYTES)
        jobs = (_searched_job(connection, search.queue, row) for row in rows)
        walk.add(priority, jobs, is_last=len(rows) < at_once)
    return walk.page(lambda row: _record(search.queue, row)._replace(body=None))


def _searched_job(connection: sqlite3.Connection, queue: Queue, row: Any) -> SearchedJob[Any]:
    local_id, priority, body = row[0], row[2], row[BODY]
    if len(body) == _SEARCHED_BYTES:
        whole = connection.execute(QUERIES["lookup_job"], (queue.id, local_id, priority, WHOLE_BODY, False)).fetchone()
        body = whole and whole[BODY]
    return SearchedJob(position_of(row), body, row)


def _rank(entry: tuple[int, JobRecord]) -> Position:
    return Position(entry[1].run_after_ms, entry[0])


def _matching(
    connection: sqlite3.Connection, search: JobSearch, wanted: int, position: Position | None = None
) -> Iterator[tuple[int, JobRecord]]:
    """Yield (id, record) of up to ``wanted`` jobs of each priority, in the order of the search."""
    pattern = search.pattern()
    rows_at_once = PAGE_BODIES if pattern else min(wanted, _PAGE_ROWS)
    for priority in search.priorities:
        matches = (
            (row[0], _record(search.queue, row)._replace(body=None))
            for row in _walk(connection, search, priority, rows_at_once, position)
            if not (search.which.skips_retrying and row[_FAILURE_GROUP] is not None)
            and (pattern is None or pattern.matches(row[BODY]))
        )
        yield from islice(matches, wanted)


def _walk(
    connection: sqlite3.Connection, search: JobSearch, priority: int, rows_at_once: int, position: Position | None
) -> Iterator[Any]:
    """Yield rows page by page, so that no read transaction stays open for long."""
    while True:
        rows = page(connection, search, priority, rows_at_once, position)
        yield from rows
        if len(rows) < rows_at_once:
            return
        position = position_of(rows[-1])


def page(
    connection: sqlite3.Connection,
    search: JobSearch,
    priority: int,
    at_once: int,
    position: Position | None,
    *,
    body_bytes: int = WHOLE_BODY,
) -> list[Any]:
    """Return the next rows of a priority, in the order of the search.

    If it searches bodies, each row has up to ``body_bytes`` of the body, otherwise none.
    """
    kind, more = _rows_of(search.which)
    run_after, local_id = search.start(position)
    body_bytes = body_bytes if search.which.body_regex else 0
    parameters = (search.queue.id, priority, search.end, body_bytes, run_after, local_id, at_once, *more)
    sql = QUERIES[f"scan_{kind}_oldest" if search.is_oldest_first else f"scan_{kind}"]
    return connection.execute(sql, parameters).fetchall()
