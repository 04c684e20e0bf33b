"""Keys with a rate: their stored state, and which of their jobs is let through.

A transaction only moves jobs that it has changed itself or that are not due: a due job may be locked by a claim that
waits for the key's lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pinlater.server.backends.key_rates import MOST_THROUGH, KeyRate, PacedKey, paced_turns
from pinlater.server.backends.mysql.key_reads import read_jobs
from pinlater.server.backends.mysql.transaction import MysqlTransaction

if TYPE_CHECKING:
    from pinlater.server.backends.mysql.keys import Keys, QueueKey


def put_rate(transaction: MysqlTransaction, key: QueueKey, rate: KeyRate) -> None:
    """Store the rate state of a key with the next statements."""
    text = rate.text.encode()
    transaction.later(transaction.bind("set_rate_of_key", rate=text, next_us=rate.next_us, **key.values))


def count_starts(
    transaction: MysqlTransaction, rates: Mapping[QueueKey, KeyRate], claimed: Keys
) -> dict[QueueKey, KeyRate]:
    """Record that jobs were claimed; return the rate states of their keys after that."""
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
    limited: Collection[QueueKey] = frozenset(),
) -> dict[QueueKey, dict[int, int]]:
    """Return the new ``run_after`` of jobs of keys with a rate, by key and job id.

    Args:
        transaction: has locked the keys.
        rates: the rate states of the keys.
        changed: keys of the jobs that it may have changed, by job id.
        held_until: by key, the ``run_after`` of jobs that its previous rate held back.
        limited: keys whose first waiting job is likely to have a limit; running jobs are counted where it has one.
    """
    now = transaction.now
    found = await read_jobs(
        transaction,
        [_parts(transaction, place, key, is_counted=key in limited) for place, key in enumerate(rates)],
    )
    if more := found.uncounted(rates, limited):
        return await decide(transaction, rates, changed, held_until, {*limited, *more})
    decided: dict[QueueKey, dict[int, int]] = {}
    for place, (key, rate) in enumerate(rates.items()):
        ours, first = found[place, "ours"], next(iter(found[place, "waiting"]), None)
        decided[key] = paced_turns(
            PacedKey(
                [*ours, *found[place, "through"]],
                first,
                found.running(place) if first is not None and first.limit is not None else 0,
                rate.starts_at(now),
                (held_until or {}).get(key),
            ),
            now,
            {job.local_id for job in ours if job.local_id in changed},
        )
    return decided


def _parts(transaction: MysqlTransaction, place: int, key: QueueKey, *, is_counted: bool) -> Iterator[bytes]:
    """Yield the queries for one key; their results have the same columns."""
    yield transaction.bind("waiting_for_key", place=place, limit=1, **key.values)
    if is_counted:
        yield transaction.bind("running_of_key", place=place, **key.values)
    yield transaction.bind("through_of_key", place=place, now=transaction.now, limit=MOST_THROUGH, **key.values)
