"""Keys with a rate: which of their jobs is let through, and what is kept of them.

A transaction moves jobs that it has changed itself, or that are not due. One that is due may be locked by a claim that
waits for the lock of the key.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pinlater.server.backends.key_rates import MOST_THROUGH, KeyRate, PacedKey, paced_turns
from pinlater.server.backends.key_turns import KeyedJob
from pinlater.server.backends.mysql.queries import one_row
from pinlater.server.backends.mysql.transaction import MysqlTransaction

if TYPE_CHECKING:
    from pinlater.server.backends.mysql.keys import Keys, QueueKey

_KEYS_PER_QUERY = 30


def parse_rate_of_key(value: bytes | None) -> KeyRate | None:
    """Return the state of a key, given the value of ``rate_of_key``; None if it has no rate."""
    if value is None:
        return None
    rate, next_us = value.decode().split(" ")
    return KeyRate(rate, int(next_us))


async def read_rates(transaction: MysqlTransaction, keys: Sequence[QueueKey]) -> dict[QueueKey, KeyRate | None]:
    """Return the states of keys that the transaction has locked."""
    queries = [
        one_row(transaction.bind("rate_of_key", **key.values) for key in keys[start : start + _KEYS_PER_QUERY])
        for start in range(0, len(keys), _KEYS_PER_QUERY)
    ]
    values = [value for result in await transaction.run(*queries) for value in result.rows[0]] if queries else []
    return dict(zip(keys, map(parse_rate_of_key, values), strict=True))


def put_rate(transaction: MysqlTransaction, key: QueueKey, rate: KeyRate) -> None:
    """Store the state of a key with the next statements."""
    text = rate.text.encode()
    transaction.later(transaction.bind("set_rate_of_key", rate=text, next_us=rate.next_us, **key.values))


def count_starts(
    transaction: MysqlTransaction, rates: Mapping[QueueKey, KeyRate], claimed: Keys
) -> dict[QueueKey, KeyRate]:
    """Note that jobs were claimed; return the states of their keys after that."""
    started = Counter(claimed.values())
    after = {key: rate.after(started[key], transaction.now) for key, rate in rates.items()}
    for key, rate in after.items():
        put_rate(transaction, key, rate)
    return after


async def decide(
    transaction: MysqlTransaction,
    rates: Mapping[QueueKey, KeyRate],
    changed: Keys,
    held_until: Mapping[QueueKey, int] | None = None,
) -> dict[QueueKey, dict[int, int]]:
    """Return what ``run_after`` has to become of jobs of keys with a rate.

    Args:
        transaction: has locked the keys.
        rates: the states of the keys.
        changed: jobs that it may have changed.
        held_until: jobs due then were held by another rate before.
    """
    keys, now = list(rates), transaction.now
    parts = [part for place, key in enumerate(keys) for part in _parts(transaction, place, key)]
    found: defaultdict[tuple[int, str], list[KeyedJob]] = defaultdict(list)
    step = 3 * _KEYS_PER_QUERY
    queries = [b"(" + b") UNION ALL (".join(parts[at : at + step]) + b")" for at in range(0, len(parts), step)]
    for result in await transaction.run(*queries) if queries else ():
        for place, part, *row in result.rows:
            found[place, part].append(KeyedJob(*row))
    decided: dict[QueueKey, dict[int, int]] = {}
    for place, (key, rate) in enumerate(rates.items()):
        ours = [job for job in found[place, "ours"] if job.local_id in changed]
        first = next(iter(found[place, "waiting"]), None)
        decided[key] = paced_turns(
            PacedKey(
                [*found[place, "ours"], *found[place, "through"]],
                first,
                found[place, "running"][0].local_id if first is not None and first.limit is not None else 0,
                rate.starts_at(now),
                (held_until or {}).get(key),
            ),
            now,
            {job.local_id for job in ours},
        )
    return decided


def _parts(transaction: MysqlTransaction, place: int, key: QueueKey) -> Iterator[bytes]:
    """Yield the queries for one key, whose results have the same columns."""
    yield transaction.bind("waiting_for_key", place=place, limit=1, **key.values)
    yield transaction.bind("running_of_key", place=place, **key.values)
    yield transaction.bind("through_of_key", place=place, now=transaction.now, limit=MOST_THROUGH, **key.values)
