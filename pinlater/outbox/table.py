"""The rows of an outbox, as the relay reads and changes them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

from pinlater.client.batches import MAX_BATCH_BYTES
from pinlater.outbox.batch import OutboxBatch
from pinlater.outbox.database import Database
from pinlater.outbox.dialects import id_list
from pinlater.outbox.turn import Settlement
from pinlater.protocol.idempotency import new_key

_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 300.0
_MOST_ERROR_CHARACTERS = 2000
_MOST_RETRIED = 1000
_SMALL_BYTES = 8000
"""Bodies of at most this size are read along with the other columns; larger ones once it is known how many fit."""

# ``retry_at_ms`` is 0 for rows that are to be delivered now; the index returns them in their order. Rows are locked by
# their ids only: a lock on a range of the index would block inserts of users.
_NEXT = (
    "SELECT id, call_key, call_rows, refusals, queue, length(body), "
    "CASE WHEN length(body) <= {small} THEN body END, options "
    "FROM {table} WHERE retry_at_ms = 0 ORDER BY id LIMIT {limit}"
)
_OF_CALL = "SELECT id FROM {table} WHERE call_key = ? ORDER BY id"
_LOAD = "SELECT id, body, options FROM {table} WHERE id IN ({ids})"
_MARK = "UPDATE {table} SET call_key = ?, call_rows = ? WHERE id IN ({ids}) AND call_key IS NULL"
_DIVIDE = "UPDATE {table} SET call_key = ?, call_rows = ? WHERE id IN ({ids}) AND call_key = ?"
_DELETE = "DELETE FROM {table} WHERE id IN ({ids}) AND call_key = ?"
_REFUSALS = "SELECT max(refusals) FROM {table} WHERE id IN ({ids})"
_REFUSE = "UPDATE {table} SET retry_at_ms = ?, refusals = refusals + 1, error = ? WHERE id IN ({ids}) AND call_key = ?"
_DUE_AGAIN = "SELECT id FROM {table} WHERE retry_at_ms > 0 AND retry_at_ms <= ? ORDER BY retry_at_ms LIMIT {limit}"
_RETRY = "UPDATE {table} SET retry_at_ms = 0 WHERE id IN ({ids})"
_TOTALS = "SELECT count(*), min(enqueued_at_ms), count(error) FROM {table}"
_REFUSED = (
    "SELECT id, queue, enqueued_at_ms, refusals, retry_at_ms, error FROM {table} WHERE error IS NOT NULL "
    "ORDER BY id LIMIT {limit}"
)


class RowsChanged(Exception):
    """Somebody else has changed or deleted rows; read them again."""


class RefusedRow(NamedTuple):
    """A job that the server has refused.

    Attributes:
        id: id of its row.
        queue: queue that it is for.
        enqueued_at_ms: when it was stored, epoch milliseconds.
        refusals: how often it was refused.
        retry_at_ms: when it is tried again, epoch milliseconds; 0: now.
        error: why it was last refused.
    """

    id: int
    queue: str
    enqueued_at_ms: int
    refusals: int
    retry_at_ms: int
    error: str


class Waiting(NamedTuple):
    """What waits in an outbox.

    Attributes:
        jobs: how many jobs are in it.
        oldest_ms: when the oldest was stored, epoch milliseconds; None if there is none.
        refused: how many of them the server has refused.
    """

    jobs: int
    oldest_ms: int | None
    refused: int


class Table:
    """The table of an outbox.

    Args:
        database: the relay's connection.
        name: name of the table.
        batch_size: maximum number of rows in a turn.
    """

    def __init__(self, database: Database, name: str, batch_size: int) -> None:
        self._database = database
        self._name = name
        self._batch_size = batch_size

    def turn(self, before: Settlement, *, goes_on: bool = True) -> list[OutboxBatch]:
        """Write what became of the last batches, and return the next ones, whose keys are then stored.

        Args:
            before: what became of the last batches.
            goes_on: whether to return the next ones.

        Raises:
            RowsChanged: rows are not as they were; what became of the last batches was not written.
        """
        if before:
            with self._database.transaction():
                self._settle(before)
                batches = self._next() if goes_on else []
                self._mark(batches)
        else:
            batches = self._next() if goes_on else []
            with self._database.transaction() if len(batches) > 1 else nullcontext():
                self._mark(batches)
        for batch in batches:
            self._load(batch)
        return [batch for batch in batches if batch.ids]

    def retry_refused(self) -> None:
        """Let refused rows whose time has come be tried again."""
        ids = [row[0] for row in self._rows(_DUE_AGAIN, int(time.time() * 1000), limit=_MOST_RETRIED)]
        if ids:
            self._run(_RETRY, ids=ids)

    def waiting(self) -> Waiting:
        """Return what waits in the table."""
        return Waiting(*self._rows(_TOTALS)[0])

    def refused(self, limit: int) -> list[RefusedRow]:
        """Return rows that the server has refused, the oldest first."""
        return [RefusedRow(*row) for row in self._rows(_REFUSED, limit=limit)]

    def _settle(self, before: Settlement) -> None:
        for batch in before.delivered:
            self._run(_DELETE, batch.key, ids=batch.ids)
        for batch in before.divided:
            middle = len(batch.ids) // 2
            for ids in (batch.ids[:middle], batch.ids[middle:]):
                self._run(_DIVIDE, new_key(), len(ids), batch.key, ids=ids)
        for batch, error in before.refused:
            [[refusals]] = self._rows(_REFUSALS, ids=batch.ids)
            wait = min(_FIRST_RETRY_SECONDS * 2 ** min(refusals or 0, 10), _LONGEST_RETRY_SECONDS)
            retry_at_ms = int((time.time() + wait) * 1000)
            self._run(_REFUSE, retry_at_ms, error[:_MOST_ERROR_CHARACTERS], batch.key, ids=batch.ids)

    def _next(self) -> list[OutboxBatch]:
        """Gather the first rows into batches, one for each queue.

        A row that has a key was sent with others under it, or was about to be. It is sent again with just these, even
        if they come later in the table: a row that is left out would be taken for delivered.
        """
        self._database.remember()
        batches: dict[bytes | str, OutboxBatch] = {}  # by key if it has one, else by queue
        found = self._rows(_NEXT, limit=self._batch_size, small=_SMALL_BYTES)
        for row_id, key, call_rows, refusals, queue, _, body, options in _within(found, MAX_BATCH_BYTES):
            mark = queue if key is None else key
            if mark not in batches:
                batches[mark] = OutboxBatch(
                    key or new_key(), queue, is_repeat=key is not None, rows=call_rows or 0, was_refused=refusals > 0
                )
            batches[mark].add(row_id, body, options)
        for batch in batches.values():
            if len(batch.ids) < batch.rows:
                batch.ids = [row[0] for row in self._rows(_OF_CALL, batch.key)]
        return list(batches.values())

    def _mark(self, batches: list[OutboxBatch]) -> None:
        """Store the keys of new batches."""
        for batch in batches:
            if not batch.is_repeat and self._run(_MARK, batch.key, len(batch.ids), ids=batch.ids) != len(batch.ids):
                raise RowsChanged

    def _load(self, batch: OutboxBatch) -> None:
        """Read the bodies that have not been read yet, and drop rows that are gone by now."""
        missing = [row_id for row_id in batch.ids if row_id not in batch.stored]
        if missing:
            batch.stored |= {row_id: (body, options) for row_id, body, options in self._rows(_LOAD, ids=missing)}
            batch.ids = [row_id for row_id in batch.ids if row_id in batch.stored]

    def _rows(self, sql: str, *parameters: Any, **texts: Any) -> list[tuple[Any, ...]]:
        return self._database.rows(self._written(sql, texts), parameters)

    def _run(self, sql: str, *parameters: Any, **texts: Any) -> int:
        return self._database.run(self._written(sql, texts), parameters)

    def _written(self, sql: str, texts: dict[str, Any]) -> str:
        if "ids" in texts:
            texts["ids"] = id_list(texts["ids"])
        return sql.format(table=self._name, **texts)


def _within(rows: Iterable[tuple[Any, ...]], most_bytes: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows as long as their bodies fit into memory, but at least one."""
    total = 0
    for row in rows:
        size = row[5]
        if total and total + size > most_bytes:
            return
        total += size
        yield row
