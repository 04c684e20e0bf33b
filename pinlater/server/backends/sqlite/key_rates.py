"""Keys with a rate: their state, and which of their jobs is let through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.server.backends.key_rates import IDLE_MS, MOST_THROUGH, KeyRate, PacedKey, paced_turns
from pinlater.server.backends.key_turns import KeyedJob, let_through
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_RATE_OF_KEY = QUERIES["rate_of_key"]
_SET_RATE = QUERIES["set_rate_of_key"]
_STARTED = QUERIES["started_of_keys"]

_FORGOTTEN_AT_ONCE = 100


def rate_of(transaction: SqliteTransaction, queue_id: int, key: str) -> KeyRate | None:
    """Return the state of a key; None if it has no rate."""
    if queue_id not in transaction.queues.rated:
        return None
    rows = transaction.rows(_RATE_OF_KEY, (queue_id, key))
    return KeyRate(*rows[0]) if rows else None


def count_starts(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> None:
    """Record in the rates of their keys that jobs were claimed; call it before the next ones are let through."""
    if queue_id not in transaction.queues.rated:
        return
    for key, text, next_us, started in transaction.rows(_STARTED, (queue_id, id_list(ids))):
        after = KeyRate(text, next_us).after(started, transaction.now)
        transaction.run(_SET_RATE, (queue_id, key, *after))


def let_paced_through(
    transaction: SqliteTransaction, queue_id: int, key: str, rate: KeyRate, held_until: int | None = None
) -> int:
    """Let through the next job of a key with a rate, due when it may be started; return how many are let through.

    Args:
        transaction: the transaction.
        queue_id: the queue's id.
        key: the key's text.
        rate: the key's state.
        held_until: jobs due at this time were held until then by the previous rate.
    """
    first = [KeyedJob(*row) for row in transaction.rows(QUERIES["waiting_for_key"], (queue_id, key, 1))]
    through = [
        KeyedJob(*row) for row in transaction.rows(QUERIES["jobs_through_of_key"], (queue_id, key, MOST_THROUGH))
    ]
    is_limited = bool(first) and first[0].limit is not None
    [(running,)] = transaction.rows(QUERIES["running_of_key"], (queue_id, key)) if is_limited else [(0,)]
    now = transaction.now
    paced = PacedKey(through, first[0] if first else None, running, rate.starts_at(now), held_until)
    changed = paced_turns(paced, now)
    transaction.run_many(QUERIES["set_run_after"], changed.items())
    return len(let_through(changed))


def set_rates(transaction: SqliteTransaction, queue_id: int, jobs: Iterable[NewJob]) -> None:
    """Set the rates of keys to those of new jobs; if several jobs have a key, the last one counts."""
    for key, text in _rates_of(jobs).items():
        transaction.queues.rated.add(queue_id)
        before = rate_of(transaction, queue_id, key)
        if before is None or before.text != text:
            after = KeyRate(text) if before is None else before.changed_to(text)
            transaction.run(_SET_RATE, (queue_id, key, *after))
            held_until = None if before is None else before.starts_at(transaction.now)
            let_paced_through(transaction, queue_id, key, after, held_until)


def _rates_of(jobs: Iterable[NewJob | JobRecord]) -> Mapping[str, str]:
    return {job.key.text: job.key.rate for job in jobs if job.key is not None and job.key.rate is not None}


def keep_rates(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> None:
    """Give keys the rates of jobs that have come back or were imported, unless a key already has a rate."""
    if queue_id in transaction.queues.keyed and transaction.run(
        QUERIES["keep_rates_of_jobs"], (queue_id, id_list(ids))
    ):
        transaction.queues.rated.add(queue_id)


def forget_rates(transaction: SqliteTransaction) -> None:
    """Delete the rates of some keys that have no unfinished job and were idle for long."""
    now_us = transaction.now * 1000
    before = now_us - IDLE_MS * 1000
    for queue_id, key, is_needed in transaction.rows(QUERIES["idle_rates"], (before, _FORGOTTEN_AT_ONCE)):
        if is_needed:  # to be looked at again later
            transaction.run(QUERIES["touch_rate_of_key"], (queue_id, key, now_us))
        else:
            transaction.run(QUERIES["forget_rate_of_key"], (queue_id, key))
