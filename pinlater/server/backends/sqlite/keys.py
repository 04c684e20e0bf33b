"""Keys of jobs: PENDING and waiting for its key -> PENDING and let through, in the transaction that makes room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import WAITS_FOR_KEY_MS, without_wait
from pinlater.server.backends.key_turns import TURN_JOBS, KeyedJob, KeyState, let_through, stored_limit, turns
from pinlater.server.backends.sqlite.key_rates import let_paced_through, rate_of
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_KEYS_OF_JOBS = QUERIES["keys_of_jobs"]
_STATES = QUERIES["states_of_keys"]
_RUNNING = QUERIES["running_of_keys"]
_SET_RUN_AFTER = QUERIES["set_run_after"]

_FIRST_READ = 10
_MOST_READ = 1000
"""How many jobs that wait for a key one query reads at most: the first one, and each one."""

_states = msgspec.json.Decoder(list[tuple[str, list[KeyedJob], int, list[KeyedJob]]]).decode
_numbers = msgspec.json.Decoder(list[int]).decode

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


def let_next_through(transaction: SqliteTransaction, keys: Keys, wanted: int = 0, *, lead_ms: int = 0) -> int:
    """Let through the jobs of these keys whose turn it is; return how many.

    Args:
        transaction: the transaction.
        keys: keys of jobs that it has changed.
        wanted: how many more jobs dequeues could take than they have found; keys for which jobs wait share them.
        lead_ms: see ``turns``.
    """
    return sum(_let_through(transaction, queue_id, some, wanted, lead_ms=lead_ms) for queue_id, some in keys.items())


def _let_through(
    transaction: SqliteTransaction, queue_id: int, keys: Iterable[str], wanted: int, *, lead_ms: int
) -> int:
    """Let through jobs of keys of one queue; keys without a rate share statements."""
    count, alike = 0, []
    for key in keys:
        rate = rate_of(transaction, queue_id, key)
        if rate is None:
            alike.append(key)
        else:
            count += let_paced_through(transaction, queue_id, key, rate)
    at_once = min(max(TURN_JOBS, wanted) + 1, _FIRST_READ)  # one more than is let through, to see that this is all
    found = _read_states(transaction, queue_id, alike, at_once)
    turn_jobs = max(TURN_JOBS, wanted // max(len(found), 1))
    while found:
        changed: dict[int, int] = {}
        again: list[str] = []
        for key, waiting, state in found:
            of_key = turns(state, waiting, transaction.now, turn_jobs, lead_ms=lead_ms)
            changed |= of_key
            if len(of_key) >= at_once:  # otherwise, some of the jobs that were read have to go on waiting
                again.append(key)
        if changed:
            transaction.run_many(_SET_RUN_AFTER, changed.items())
            count += len(let_through(changed))
        at_once = min(max(turn_jobs + 1, _FIRST_READ), _MOST_READ)
        found = _read_states(transaction, queue_id, again, at_once)
    return count


def _read_states(
    transaction: SqliteTransaction, queue_id: int, keys: Sequence[str], at_once: int
) -> list[tuple[str, list[KeyedJob], KeyState]]:
    """Return those of these keys for which jobs wait, the first of these jobs, and the state of the key.

    Without a limit, the jobs that run, which may be many, are not counted.
    """
    if not keys:
        return []
    asked = msgspec.json.encode(keys).decode()
    [(text,)] = transaction.rows(_STATES, (queue_id, transaction.now, asked, at_once))
    found = _states(text)
    limited = [key for key, waiting, *_ in found if any(job.limit is not None for job in waiting)]
    running: dict[str, int] = {}
    if limited:
        [(text,)] = transaction.rows(_RUNNING, (queue_id, msgspec.json.encode(limited).decode()))
        running = dict(zip(limited, _numbers(text), strict=True))
    return [
        (key, waiting, KeyState(running.get(key, 0), pending, scheduled)) for key, waiting, pending, scheduled in found
    ]


class KeyLine:
    """Gives new jobs of one queue their place behind those of their keys.

    Args:
        transaction: the transaction that stores the jobs.
        queue_id: the queue's id.

    Attributes:
        keys: the keys of all jobs that were given a place.
    """

    def __init__(self, transaction: SqliteTransaction, queue_id: int) -> None:
        self._transaction = transaction
        self._queue_id = queue_id
        self._last: dict[str, int] = {}
        self.keys: set[str] = set()

    def run_after(self, job: NewJob | JobRecord) -> int:
        """Return the ``run_after`` to store a job with; a job with a key waits for it until ``let_next_through``."""
        due = self._transaction.now if job.run_after_ms is None else job.run_after_ms
        if job.key is None:
            return due
        if not self.keys:
            self._transaction.mark_keyed(self._queue_id)
        self.keys.add(job.key.text)
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
