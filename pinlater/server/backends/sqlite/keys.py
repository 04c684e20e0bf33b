"""Keys of jobs: PENDING and waiting for its key -> PENDING and let through, in the transaction that makes room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import WAITS_FOR_KEY_MS, without_wait
from pinlater.server.backends.key_turns import TURN_JOBS, KeyedJob, KeyState, let_through, stored_limit, turns
from pinlater.server.backends.sqlite.key_rates import let_paced_through, rate_of
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_KEYS_OF_JOBS = QUERIES["keys_of_jobs"]
_WAITING = QUERIES["waiting_for_key"]
_RUNNING = QUERIES["running_of_key"]
_THROUGH = QUERIES["through_of_key"]
_SCHEDULED = QUERIES["scheduled_of_key"]
_SET_RUN_AFTER = QUERIES["set_run_after"]

_AT_ONCE = 10
"""How many jobs that wait for a key one query reads."""

Keys = dict[int, set[str]]
"""Keys of jobs, by queue id."""


def keys_of(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int]) -> Keys:
    """Return the keys of these jobs of a queue; costs nothing if no job of the queue ever had one."""
    return keys_of_all(transaction, ids) if queue_id in transaction.queues.keyed else {}


def keys_of_all(transaction: SqliteTransaction, ids: Iterable[int]) -> Keys:
    """Return the keys of jobs of any queue."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    if transaction.queues.keyed:
        for queue_id, key in transaction.rows(_KEYS_OF_JOBS, (id_list(ids),)):
            found[queue_id].add(key)
    return found


def let_next_through(transaction: SqliteTransaction, keys: Keys, wanted: int = 0) -> int:
    """Let through the jobs of these keys whose turn it is; return how many.

    Args:
        transaction: the transaction.
        keys: keys of jobs that it has changed.
        wanted: how many more jobs a dequeue could take than it has found.
    """
    turn_jobs = max(TURN_JOBS, wanted // max(sum(map(len, keys.values())), 1))
    return sum(_let_through(transaction, queue_id, key, turn_jobs) for queue_id, some in keys.items() for key in some)


def _let_through(transaction: SqliteTransaction, queue_id: int, key: str, turn_jobs: int) -> int:
    rate = rate_of(transaction, queue_id, key)
    if rate is not None:
        return let_paced_through(transaction, queue_id, key, rate)
    count = 0
    while rows := transaction.rows(_WAITING, (queue_id, key, _AT_ONCE)):
        waiting = [KeyedJob(*row) for row in rows]
        changed = turns(_state(transaction, queue_id, key, waiting), waiting, transaction.now, turn_jobs)
        if changed:
            transaction.run_many(_SET_RUN_AFTER, changed.items())
            count += let_through(changed)
        if len(changed) < _AT_ONCE:  # some of the jobs that were read have to go on waiting
            break
    return count


def _state(transaction: SqliteTransaction, queue_id: int, key: str, waiting: Sequence[KeyedJob]) -> KeyState:
    """Return the state of a key; without a limit, the jobs that run, which may be many, are not counted."""
    is_limited = any(job.limit is not None for job in waiting)
    [(running,)] = transaction.rows(_RUNNING, (queue_id, key)) if is_limited else [(0,)]
    [(pending,)] = transaction.rows(_THROUGH, (queue_id, key))
    later = transaction.rows(_SCHEDULED, (queue_id, transaction.now, key)) if pending else ()
    return KeyState(running, pending, [KeyedJob(*row) for row in later])


class KeyLine:
    """Gives new jobs of one queue their place behind those of their keys.

    Args:
        transaction: the transaction that stores the jobs.
        queue_id: the queue's id.
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
        """Return the ``run_after`` to store a job with; a job with a key waits for it until ``let_next_through``."""
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


def key_columns(job: NewJob | JobRecord) -> tuple[str | None, int | None, str | None]:
    """Return the key columns of a job: text, limit and rate."""
    return (None, None, None) if job.key is None else (job.key.text, stored_limit(job.key), job.key.rate)
