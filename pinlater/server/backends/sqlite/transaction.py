"""A write transaction, and the job ids that it allocates."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import msgspec

from pinlater.server.backends.sqlite.families import Families
from pinlater.server.backends.sqlite.queries import QUERIES, ByIds

ID_BLOCK = 100_000
"""How many ids are reserved at once; after a crash, the rest of a block is never used."""


class IdBlock:
    """Allocates job ids that no job ever had, deleted jobs included."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0

    def take(self, cursor: sqlite3.Cursor, count: int) -> int:
        """Return the first of ``count`` consecutive ids."""
        if self._next + count > self._end:
            self._reserve(cursor, count)
        first = self._next
        self._next += count
        return first

    def _reserve(self, cursor: sqlite3.Cursor, count: int) -> None:
        if not self._end:
            self._next = max(self._next, cursor.execute(QUERIES["next_job_id"]).fetchone()[0])
        self._end = self._next + count + ID_BLOCK
        cursor.execute(QUERIES["reserve_job_ids"], (self._end,))

    def forget(self) -> None:
        """Reserve a new block next time: the last reservation may be undone. No id is allocated twice."""
        self._end = 0


class QueueTraits:
    """Which queues use rare features, as sets of queue ids; for the other queues, statements are left out.

    Attributes:
        keyed: queues of which a job ever had a key.
        with_parents: queues of which a job ever had a parent.
        with_messages: queues of which a job ever had a message.
        with_cancelled: queues of which a job was ever asked to stop.
        rated: queues that have or had a key with a rate.
    """

    __slots__ = ("_deleted", "keyed", "rated", "with_cancelled", "with_messages", "with_parents")

    def __init__(self, rows: Iterable[tuple[int, int, int, int, int, int]] = ()) -> None:
        found = list(rows)
        self.keyed, self.with_parents, self.with_messages, self.with_cancelled, self.rated = (
            {row[0] for row in found if row[column]} for column in range(1, 6)
        )
        self._deleted: set[int] = set()

    def note_deleted(self, queue_ids: set[int]) -> None:
        """Forget the queues that were among the deleted ones last time, and are gone now.

        Args:
            queue_ids: the deleted queues of which jobs may be left.
        """
        gone, self._deleted = self._deleted - queue_ids, queue_ids
        for queues in (self.keyed, self.with_parents, self.with_messages, self.with_cancelled, self.rated):
            queues.difference_update(gone)


class SqliteTransaction:
    """One write transaction.

    Attributes:
        now: its time in epoch milliseconds, the same for all its verbs.
        ids: source of job ids.
        queues: which queues use which rare features.
        families: the newest children.
        successes: the results of jobs that have become SUCCEEDED, as far as these are in queues with parents, and no
            ack of their call was stale; by id.
        woken: how many sleeping jobs messages have made due, by queue id and priority.
    """

    __slots__ = ("_cursor", "_marked_keyed", "families", "ids", "now", "queues", "successes", "woken")

    def __init__(self, cursor: sqlite3.Cursor, now: int, ids: IdBlock, queues: QueueTraits, families: Families) -> None:
        self._cursor = cursor
        self._marked_keyed: set[int] = set()
        self.now = now
        self.ids = ids
        self.queues = queues
        self.families = families
        self.successes: dict[int, bytes] = {}
        self.woken: dict[tuple[int, int], int] = {}

    def take_ids(self, count: int) -> int:
        """Return the first of ``count`` new job ids."""
        return self.ids.take(self._cursor, count)

    # Each of these writes to the database in every transaction, since an earlier one may have been undone.

    def mark_keyed(self, queue_id: int) -> None:
        """Record that a queue has jobs with keys."""
        if queue_id not in self._marked_keyed:
            self.run(QUERIES["mark_has_keys"], (queue_id,))
            self._marked_keyed.add(queue_id)
            self.queues.keyed.add(queue_id)

    def mark_with_parents(self, queue_id: int) -> None:
        """Record that a queue has jobs with parents."""
        self.run(QUERIES["mark_has_parents"], (queue_id,))
        self.queues.with_parents.add(queue_id)

    def mark_with_messages(self, queue_id: int) -> None:
        """Record that a queue has jobs with messages."""
        self.run(QUERIES["mark_has_messages"], (queue_id,))
        self.queues.with_messages.add(queue_id)

    def mark_with_cancelled(self, queue_id: int) -> None:
        """Record that a queue has jobs that are asked to stop."""
        self.run(QUERIES["mark_has_cancelled"], (queue_id,))
        self.queues.with_cancelled.add(queue_id)

    def run(self, sql: str, parameters: Iterable[Any]) -> int:
        """Execute a statement; return how many rows it changed."""
        return self._cursor.execute(sql, parameters).rowcount  # type: ignore[arg-type]

    def run_on(self, statement: ByIds, parameters: tuple[Any, ...], ids: list[int]) -> int:
        """Execute a statement for the jobs with these ids; return how many rows it changed."""
        if not ids:
            return 0
        first, last = ids[0], ids[-1]
        if last - first == len(ids) - 1 and ids == list(range(first, last + 1)):
            return self.run(statement.in_a_row, (*parameters, first, last))
        return self.run(statement.listed, (*parameters, id_list(ids)))

    def rows(self, sql: str, parameters: Iterable[Any] = ()) -> list[Any]:
        """Execute a statement; return all its rows."""
        return self._cursor.execute(sql, parameters).fetchall()  # type: ignore[arg-type]

    def run_many(self, sql: str, parameters: Iterable[Any]) -> int:
        """Execute a statement for each set of parameters; return how many rows changed in all."""
        return self._cursor.executemany(sql, parameters).rowcount


def id_list(ids: Iterable[int]) -> str:
    """Return ids as a JSON list, the form that the queries take."""
    return msgspec.json.encode(list(ids)).decode()


def joined(pieces: Iterable[bytes]) -> tuple[list[tuple[int, int]], bytes]:
    """Return the start and length of each piece, as ``substr`` counts, and all pieces joined.

    So one statement can take them all: JSON has no bytes.
    """
    given = [b"\0", *pieces]  # of an empty blob, substr would return NULL
    ends = list(accumulate(map(len, given)))
    return [(end + 1, len(piece)) for end, piece in zip(ends, given[1:], strict=False)], b"".join(given)
