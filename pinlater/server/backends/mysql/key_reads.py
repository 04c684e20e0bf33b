"""Reads for several keys at once, in few statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends.key_turns import KeyedJob
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.queries import one_row
from pinlater.server.backends.mysql.transaction import MysqlTransaction

if TYPE_CHECKING:
    from pinlater.server.backends.mysql.keys import QueueKey

_KEYS_PER_QUERY = 30
_VALUES_PER_QUERY = 60


class FirstOfKey(NamedTuple):
    """The first PENDING job of a key.

    Attributes:
        run_after: as it is stored, so below ``WAITS_FOR_KEY_MS`` if the job is let through.
        limit: the limit of its key, as it is stored.
    """

    run_after: int
    limit: int | None

    @property
    def waits(self) -> bool:
        """Whether it waits for the key, as no job is let through."""
        return self.run_after >= WAITS_FOR_KEY_MS

    def is_due(self, now: int) -> bool:
        """Return whether it may be claimed."""
        return self.run_after <= now


def parse_first_of_key(value: bytes | str | None) -> FirstOfKey | None:
    """Parse the value of ``first_of_key``; None if the key has no PENDING job."""
    if value is None:
        return None
    run_after, limit = map(int, value.split())
    return FirstOfKey(run_after, None if limit < 0 else limit)


async def read_values(
    transaction: MysqlTransaction, reads: Sequence[tuple[str, QueueKey]], before: Sequence[bytes]
) -> tuple[list[Any], Sequence[StatementResult]]:
    """Execute statements, then single-value queries about keys; return the values, and the results of the statements.

    Args:
        transaction: executes them.
        reads: the name of each query, and the key.
        before: the statements.
    """
    queries = [
        one_row(transaction.bind(name, **key.values) for name, key in reads[start : start + _VALUES_PER_QUERY])
        for start in range(0, len(reads), _VALUES_PER_QUERY)
    ]
    results = await transaction.run(*before, *queries)
    return [value for result in results[len(before) :] for value in result.rows[0]], results[: len(before)]


def running_part(transaction: MysqlTransaction, place: int, key: QueueKey) -> bytes:
    """Return the query for ``read_jobs`` that counts the running jobs of a key; the count is the id of its row."""
    return b"SELECT %d, 'running', (%b), 0, NULL" % (place, transaction.bind("running_of_key", **key.values))


class JobsOfKeys(defaultdict[tuple[int, str], list[KeyedJob]]):
    """Jobs by the index of their key and the query's label for them."""

    def running(self, place: int) -> int:
        """Return how many jobs run of the key at an index; see ``running_part``."""
        return self[place, "running"][0].local_id

    def uncounted(self, keys: Iterable[QueueKey], counted: Collection[QueueKey]) -> set[QueueKey]:
        """Return those of the keys whose first waiting job has a limit, but whose running jobs are not counted."""
        firsts = ((key, next(iter(self[place, "waiting"]), None)) for place, key in enumerate(keys))
        return {key for key, first in firsts if first is not None and first.limit is not None and key not in counted}


async def read_jobs(transaction: MysqlTransaction, queries: Sequence[Iterable[bytes]]) -> JobsOfKeys:
    """Return the jobs that the queries of each key find, by the index of the key and the query's label for them."""
    unions = [
        b"("
        + b") UNION ALL (".join(part for of_key in queries[start : start + _KEYS_PER_QUERY] for part in of_key)
        + b")"
        for start in range(0, len(queries), _KEYS_PER_QUERY)
    ]
    found = JobsOfKeys(list)
    for result in await transaction.run(*unions) if unions else ():
        for place, part, *row in result.rows:
            found[place, part].append(KeyedJob(*row))
    return found
