"""Keys of jobs: PENDING and waiting for its key -> PENDING and let through, in the transaction that makes room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import WAITS_FOR_KEY_MS, without_wait
from pinlater.server.backends.key_turns import TURN_JOBS, KeyedJob, KeyState, let_through, stored_limit, turns
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_KEYS_OF_JOBS = QUERIES["keys_of_jobs"]
_WAITING = QUERIES["waiting_for_key"]
_STATE = QUERIES["state_of_key"]
_SCHEDULED = QUERIES["scheduled_of_key"]
_SET_RUN_AFTER = QUERIES["set_run_after"]

Keys = dict[int, set[str]]
"""Keys of jobs, by the queue's id."""


def keys_of(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int]) -> Keys:
    """Return the keys of these jobs of a queue; costs nothing in a queue whose jobs never had any."""
    if queue_id not in transaction.keyed_queues:
        return {}
    return {queue_id: {key for _, key in transaction.rows(_KEYS_OF_JOBS, (id_list(ids),))}}


def keys_of_all(transaction: SqliteTransaction, ids: Iterable[int]) -> Keys:
    """Return the keys of jobs of any queue."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    if transaction.keyed_queues:
        for queue_id, key in transaction.rows(_KEYS_OF_JOBS, (id_list(ids),)):
            found[queue_id].add(key)
    return found


def let_next_through(transaction: SqliteTransaction, keys: Keys) -> int:
    """Let those jobs of keys through whose turn it is; return how many."""
    return sum(_let_through(transaction, queue_id, key) for queue_id, some in keys.items() for key in some)


def _let_through(transaction: SqliteTransaction, queue_id: int, key: str) -> int:
    count = 0
    while waiting := transaction.rows(_WAITING, (queue_id, key, TURN_JOBS)):
        [(running, pending)] = transaction.rows(_STATE, (queue_id, key))
        scheduled = [KeyedJob(*row) for row in transaction.rows(_SCHEDULED, (queue_id, transaction.now, key))]
        changed = turns(KeyState(running, pending, scheduled), [KeyedJob(*row) for row in waiting], transaction.now)
        if changed:
            transaction.run_many(_SET_RUN_AFTER, changed.items())
            count += let_through(changed)
        if len(changed) < TURN_JOBS:  # not all that were looked at
            break
    return count


class KeyLine:
    """Gives new jobs of one queue their place behind those of their keys.

    Args:
        transaction: the jobs are stored in this.
        queue_id: of the queue.
    """

    def __init__(self, transaction: SqliteTransaction, queue_id: int) -> None:
        self._transaction = transaction
        self._queue_id = queue_id
        self._last: dict[str, int] = {}
        self._keys: set[str] = set()

    @property
    def keys(self) -> Keys:
        """The keys of all jobs that were given a place."""
        return {self._queue_id: self._keys}

    def run_after(self, job: NewJob | JobRecord) -> int:
        """Return the ``run_after`` to store a job with; one with a key waits for it, until ``let_next_through``."""
        due = self._transaction.now if job.run_after_ms is None else job.run_after_ms
        if job.key is None:
            return due
        if not self._keys:
            self._transaction.mark_keyed(self._queue_id)
        self._keys.add(job.key.text)
        waits_until = min(without_wait(due), WAITS_FOR_KEY_MS - 1) + WAITS_FOR_KEY_MS
        if job.key.is_ordered:
            waits_until = self._last[job.key.text] = max(waits_until, self._last_of(job.key.text))
        return waits_until

    def _last_of(self, key: str) -> int:
        if key not in self._last:
            [(last,)] = self._transaction.rows(QUERIES["last_of_key"], (self._queue_id, key))
            self._last[key] = last or 0
        return self._last[key]


def key_columns(job: NewJob | JobRecord) -> tuple[str | None, int | None]:
    """Return what is stored of a job's key."""
    return (None, None) if job.key is None else (job.key.text, stored_limit(job.key))
