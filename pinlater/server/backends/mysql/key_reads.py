"""Reads for several keys at once, in few statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pinlater.server.backends.key_turns import KeyedJob
from pinlater.server.backends.mysql.queries import one_row
from pinlater.server.backends.mysql.transaction import MysqlTransaction

if TYPE_CHECKING:
    from pinlater.server.backends.mysql.keys import QueueKey

_KEYS_PER_QUERY = 30


async def read_values(
    transaction: MysqlTransaction, keys: Sequence[QueueKey], names: Sequence[str], before: Sequence[bytes] = ()
) -> list[Any]:
    """Execute statements, then single-value queries for each key; return the values of all keys in one list.

    Args:
        transaction: executes them.
        keys: the keys to read about.
        names: names of the queries; the values of each key come in this order.
        before: the statements.
    """
    queries = [
        one_row(transaction.bind(name, **key.values) for key in keys[start : start + _KEYS_PER_QUERY] for name in names)
        for start in range(0, len(keys), _KEYS_PER_QUERY)
    ]
    results = (await transaction.run(*before, *queries))[len(before) :] if before or queries else ()
    return [value for result in results for value in result.rows[0]]


async def read_jobs(
    transaction: MysqlTransaction, queries: Sequence[Iterable[bytes]]
) -> defaultdict[tuple[int, str], list[KeyedJob]]:
    """Return the jobs that the queries of each key find, by the index of the key and the query's label for them."""
    unions = [
        b"("
        + b") UNION ALL (".join(part for of_key in queries[start : start + _KEYS_PER_QUERY] for part in of_key)
        + b")"
        for start in range(0, len(queries), _KEYS_PER_QUERY)
    ]
    found: defaultdict[tuple[int, str], list[KeyedJob]] = defaultdict(list)
    for result in await transaction.run(*unions) if unions else ():
        for place, part, *row in result.rows:
            found[place, part].append(KeyedJob(*row))
    return found
