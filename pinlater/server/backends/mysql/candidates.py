"""Due jobs of a queue that may be claimed, in the order (priority, run_after, id)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.mysql.queries import one_row
from pinlater.server.backends.mysql.scan_cursor import FROM_START, ScanCursor
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.search import Queue

_BEGIN = -(2**63)
"""Smallest run_after."""

SMALL_BODY_BYTES = 2000
"""Bodies up to this size are read with the candidates, even though they may not fit into the answer."""


class Candidate(NamedTuple):
    """A job that may be claimed.

    Attributes:
        prefix: descriptor up to the id.
        size: size of the body, in bytes.
        body: the body; None: not read, as it is larger than ``SMALL_BODY_BYTES``.
        key: the key it shares with other jobs; None: it has none.
        is_failing: whether it is in a failure group, so its last attempt failed.
    """

    prefix: str
    id: int
    size: int
    allowed: int
    remaining: int
    created_at: int
    run_after: int
    body: bytes | None
    key: bytes | None
    is_failing: int

    def claimed(self, large_bodies: Mapping[int, bytes]) -> DequeuedJob:
        """Return the claimed job, given the bodies that were read later, by job id."""
        descriptor, body = f"{self.prefix}{self.id}", self.body
        if body is None:
            body = large_bodies[self.id]
        return DequeuedJob(descriptor, body, self.allowed, self.remaining, self.created_at, self.run_after)


class Found(NamedTuple):
    """Jobs that may be claimed.

    Attributes:
        jobs: the jobs, in claim order.
        has_more: whether more are due, or may be.
    """

    jobs: list[Candidate]
    has_more: bool


class CandidateSearch:
    """Finds and locks due jobs of one queue.

    Args:
        queue: the queue.

    Attributes:
        cursor: where to start the scan.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.cursor = ScanCursor()

    async def find(self, transaction: MysqlTransaction, wanted: int) -> Found | None:
        """Lock up to ``wanted`` due jobs and return them; None if the queue was deleted."""
        positions = self.cursor.positions
        if positions:
            found = await self._candidates(transaction, wanted, positions)
            if found is None or found.has_more:
                return found
            if len(found.jobs) >= wanted:
                return await self._look_behind(transaction, found)
        began = time.perf_counter()
        found = await self._candidates(transaction, wanted, FROM_START)
        self.cursor.restart(time.perf_counter() - began)
        return found

    async def _look_behind(self, transaction: MysqlTransaction, found: Found) -> Found:
        """Check whether more jobs are due than were found, including jobs before the cursor."""
        skipped = Counter(job.prefix for job in found.jobs)
        queries = [
            self._behind(transaction, priority, FROM_START, skipped[prefix])
            for priority, prefix in enumerate(self._queue.prefixes, 1)
        ]
        [first] = await transaction.run(one_row(queries))
        return found._replace(has_more=_is_any_due(first.rows[0], transaction.now))

    async def _candidates(
        self, transaction: MysqlTransaction, wanted: int, positions: Mapping[str, int]
    ) -> Found | None:
        priorities = range(1, len(self._queue.prefixes) + 1)
        exists_query = transaction.bind("queue_exists", queue=self._queue.id)
        queries = [self._behind(transaction, at, positions, 0 if at > 1 else wanted) for at in priorities]
        known, first_page = await transaction.run(
            one_row([exists_query, *queries]), self._claimable(transaction, 1, wanted, positions)
        )
        exists, behind, *firsts = known.rows[0]
        if exists is None:
            return None
        found = self._parse(1, first_page.rows)
        for priority in priorities[1:]:
            if len(found) >= wanted:
                break
            first = firsts.pop(0)
            if first is not None and first <= transaction.now:
                left = wanted - len(found)
                known, page = await transaction.run(
                    self._behind(transaction, priority, positions, left),
                    self._claimable(transaction, priority, left, positions),
                )
                behind = known.rows[0][0] if known.rows else None
                found += self._parse(priority, page.rows)
        return Found(found, len(found) >= wanted and _is_any_due([behind, *firsts], transaction.now))

    def _behind(
        self, transaction: MysqlTransaction, priority: int, positions: Mapping[str, int], skipped: int
    ) -> bytes:
        start = self._start(positions, priority)
        return transaction.bind("pending_behind", queue=self._queue.id, priority=priority, start=start, skipped=skipped)

    def _claimable(
        self, transaction: MysqlTransaction, priority: int, limit: int, positions: Mapping[str, int]
    ) -> bytes:
        return transaction.bind(
            "claimable_jobs",
            queue=self._queue.id,
            priority=priority,
            start=self._start(positions, priority),
            now=transaction.now,
            limit=limit,
            small=SMALL_BODY_BYTES,
        )

    def _start(self, positions: Mapping[str, int], priority: int) -> int:
        return positions.get(self._queue.prefixes[priority - 1], _BEGIN)

    def _parse(self, priority: int, rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
        prefix = self._queue.prefixes[priority - 1]
        return [Candidate(prefix, *row) for row in rows]

    async def among(self, transaction: MysqlTransaction, ids: Iterable[int]) -> list[Candidate]:
        """Return those of the jobs with these ids that are due, in claim order, and lock them."""
        rows = await transaction.rows("claimable_of_ids", ids=sorted(ids), now=transaction.now, small=SMALL_BODY_BYTES)
        found: list[Candidate] = []
        for priority in range(1, len(self._queue.prefixes) + 1):
            jobs = self._parse(priority, [row[1:] for row in rows if row[0] == priority])
            found += sorted(jobs, key=attrgetter("run_after", "id"))
        return found


def _is_any_due(times: Iterable[int | None], now: int) -> bool:
    return any(due_ms is not None and due_ms <= now for due_ms in times)
