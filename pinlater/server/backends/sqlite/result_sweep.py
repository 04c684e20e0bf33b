"""Find and delete expired results of calls, by walking through all results again and again, in the order of their keys.

An index of their expiry times would be one more page of nearly every commit. Without it, storing a result changes one
page, and each result is read a few times until it is deleted, in a thread that delays no commit. Keys may have any form
and may be kept for different times.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from pinlater.server.backends.records import IDEMPOTENCY_KEY_BYTES
from pinlater.server.backends.sqlite import call_results
from pinlater.server.backends.sqlite.call_results import ExpiredResults
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.readers import Readers
from pinlater.server.backends.sqlite.writer import Writer

RESULTS_PER_DELETION = 50
"""How many results a step reads for each one that it may delete: by default 50,000 a second, which takes 3 ms.

So a walk through 10,000,000 results takes 200 s, and less if many have expired. Results that expire during a walk stay
in the table until the walk reaches them.
"""

_BEFORE_ALL, _BEHIND_ALL = b"", b"\xff" * (IDEMPOTENCY_KEY_BYTES + 1)


class Piece(NamedTuple):
    """A part of the walk.

    Attributes:
        end: the key behind which the next piece begins.
        expired: the results in it that have expired; None: there are none.
    """

    end: bytes
    expired: ExpiredResults | None


class ResultSweep:
    """Walks through the results of calls and deletes those that have expired.

    Args:
        readers: find the expired results.
        writer: deletes them.
        now_ms: the clock of the store.
    """

    def __init__(self, readers: Readers, writer: Writer, now_ms: Callable[[], int]) -> None:
        self._readers = readers
        self._writer = writer
        self._now_ms = now_ms
        self._position = _BEFORE_ALL

    async def forget(self, limit: int) -> int:
        """Walk on until ``limit`` expired results are found, the walk is over, or enough were read; delete those found.

        Returns:
            How many results were deleted.
        """
        piece = await self._readers.run(find_expired, self._position, self._now_ms(), limit)
        deleted = 0 if piece.expired is None else await self._writer.submit(call_results.forget, piece.expired)
        self._position = piece.end  # only now: if the deletion failed, the next step finds the same results again
        return int(deleted)


def find_expired(connection: sqlite3.Connection, position: bytes, now_ms: int, limit: int) -> Piece:
    """Return the next piece of the walk, with at most ``limit`` expired results.

    If it is the last one, the next piece begins at the first key again.
    """
    looked_at = connection.execute(QUERIES["result_key_behind"], (position, limit * RESULTS_PER_DELETION)).fetchone()
    end = _BEHIND_ALL if looked_at is None else looked_at[0]
    found = connection.execute(QUERIES["expired_results"], (position, end, now_ms, limit))
    count, first, last = found.fetchone()
    expired = ExpiredResults(first, last, now_ms) if count else None
    if count == limit:
        return Piece(last, expired)
    return Piece(_BEFORE_ALL if looked_at is None else end, expired)
