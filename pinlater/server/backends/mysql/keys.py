"""Keys of jobs: PENDING and waiting for its key -> PENDING and let through, in the transaction that makes room.

A transaction changes jobs first, then locks their keys, and only then decides about them. So decisions about a key come
one after the other, over all servers, and each sees what was changed before it. What is locked is one of a fixed number
of rows, which several keys may share.

Decisions read ``keyed_jobs``, which has the unfinished jobs with keys once more. It is changed under the lock of their
keys alone, and always copied from the jobs.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey, without_wait
from pinlater.server.backends.key_turns import TURN_JOBS, KeyedJob, KeyState, let_through, stored_limit, turns
from pinlater.server.backends.mysql.queries import blob, one_row
from pinlater.server.backends.mysql.transaction import MysqlTransaction

_LOCKS = 256
_KEYS_PER_QUERY = 30
_AT_ONCE = 10
"""Jobs that wait for a key, looked at by one query."""


class QueueKey(NamedTuple):
    """A key of a queue."""

    queue_id: int
    text: bytes

    @property
    def lock(self) -> int:
        """The row that is locked to decide about it."""
        return zlib.crc32(b"%d %b" % self) % _LOCKS

    @property
    def values(self) -> dict[str, Any]:
        """What statements about it are given."""
        return {"queue": self.queue_id, "key": self.text}


Keys = dict[int, QueueKey]
"""Keys of jobs, by the job's id."""


async def keys_of(transaction: MysqlTransaction, ids: Iterable[int]) -> Keys:
    """Return the keys of those of the jobs that have one."""
    given = sorted(ids)
    return keys_in(await transaction.rows("keys_of_jobs", ids=given)) if given else {}


def keys_in(rows: Iterable[tuple[Any, ...]]) -> Keys:
    """Return the keys in rows of ``keys_of_jobs``."""
    return {local_id: QueueKey(queue_id, key) for local_id, queue_id, key in rows}


async def let_next_through(
    transaction: MysqlTransaction, changed: Keys, wanted: int = 0, *, is_claim: bool = False
) -> Counter[QueueKey]:
    """Let those jobs through whose turn it is, after some were changed. Return how many of each key.

    Args:
        transaction: has changed jobs.
        changed: the keys of those that it may have changed.
        wanted: how many a dequeue could still take, and found no other job for.
        is_claim: it has claimed them, which makes no room where the first that waits has a limit.
    """
    through: Counter[QueueKey] = Counter()
    left: Sequence[QueueKey] = sorted(set(changed.values()))
    turn_jobs = max(TURN_JOBS, wanted // max(len(left), 1))
    pending = [_lock(transaction, left), *_copy(transaction, changed)] if left else []
    while left:
        states = await _states(transaction, left, pending)
        looks = await _look(transaction, {key: state for key, state in states.items() if not (is_claim and state[0])})
        decided = {key: turns(*look[:2], transaction.now, turn_jobs) for key, look in looks.items()}
        for key, run_after in decided.items():
            through[key] += let_through(run_after)
        left = [key for key, look in looks.items() if look.is_cut and len(decided[key]) >= len(look.waiting)]
        pending = list(_apply(transaction, decided.values()))
    if pending:
        await transaction.run(*pending)
    return through


def _lock(transaction: MysqlTransaction, keys: Iterable[QueueKey]) -> bytes:
    """Return the statement that locks keys, in the order in which all transactions do."""
    rows = [b"(%d,0)" % lock for lock in sorted({key.lock for key in keys})]
    return b" ".join([transaction.bind("lock_keys"), b",".join(rows), transaction.bind("change_key_locks")])


def _copy(transaction: MysqlTransaction, ids: Iterable[int]) -> Iterator[bytes]:
    """Yield the statements that bring the copies of jobs up to date."""
    given = sorted(ids)
    yield transaction.bind("delete_keyed_jobs", ids=given)
    yield transaction.bind("insert_keyed_jobs_again", ids=given)


async def _states(
    transaction: MysqlTransaction, keys: Sequence[QueueKey], before: Sequence[bytes]
) -> dict[QueueKey, tuple[int, int]]:
    """Execute statements; return of keys that jobs wait for whether the first has a limit, and how many are through."""
    queries = [
        one_row(
            transaction.bind(name, **key.values)
            for key in keys[start : start + _KEYS_PER_QUERY]
            for name in ("first_of_key", "pending_of_key")
        )
        for start in range(0, len(keys), _KEYS_PER_QUERY)
    ]
    results = (await transaction.run(*before, *queries))[len(before) :]
    values = [value for result in results for value in result.rows[0]]
    return {
        key: (is_limited, pending)
        for key, is_limited, pending in zip(keys, values[::2], values[1::2], strict=True)
        if is_limited is not None
    }


class _Look(NamedTuple):
    """What is decided by; whether more jobs may wait than were looked at."""

    state: KeyState
    waiting: Sequence[KeyedJob]
    is_cut: bool


async def _look(transaction: MysqlTransaction, states: Mapping[QueueKey, tuple[int, int]]) -> dict[QueueKey, _Look]:
    """Look at what waits for keys; without a limit, nobody asks how many run, which may be many."""
    keys = list(states)
    queries: list[bytes] = []
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        places = range(start, min(start + _KEYS_PER_QUERY, len(keys)))
        parts = (part for place in places for part in _parts(transaction, place, keys[place], *states[keys[place]]))
        queries.append(b"(" + b") UNION ALL (".join(parts) + b")")
    found: defaultdict[tuple[int, str], list[KeyedJob]] = defaultdict(list)
    for result in await transaction.run(*queries) if queries else ():
        for place, part, *row in result.rows:
            found[place, part].append(KeyedJob(*row))
    looks: dict[QueueKey, _Look] = {}
    for place, (key, (is_limited, pending)) in enumerate(states.items()):
        first = sorted(found[place, "waiting"], key=itemgetter(1, 0))
        waiting = first if is_limited else [*takewhile(lambda job: job.limit is None, first)]
        running = found[place, "running"][0].local_id if is_limited else 0
        is_cut = len(first) == _AT_ONCE or len(waiting) < len(first)
        looks[key] = _Look(KeyState(running, pending, found[place, "scheduled"]), waiting, is_cut)
    return looks


def _parts(transaction: MysqlTransaction, place: int, key: QueueKey, is_limited: int, pending: int) -> Iterator[bytes]:
    """Yield the queries for one key, whose results have the same columns."""
    yield transaction.bind("waiting_for_key", place=place, limit=_AT_ONCE, **key.values)
    if is_limited:
        yield transaction.bind("running_of_key", place=place, **key.values)
    if pending:
        yield transaction.bind("scheduled_of_key", place=place, now=transaction.now, **key.values)


def _apply(transaction: MysqlTransaction, decided: Iterable[Mapping[int, int]]) -> Iterator[bytes]:
    """Yield the statements that carry out what was decided."""
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for changes in decided:
        for local_id, run_after in changes.items():
            ids[run_after].append(local_id)
    for run_after, some in ids.items():
        yield transaction.bind("set_run_after", run_after=run_after, ids=sorted(some))
    if ids:
        yield from _copy(transaction, (local_id for some in ids.values() for local_id in some))


class KeyLine:
    """Gives new jobs their places behind those of their keys.

    Args:
        transaction: stores them.
    """

    def __init__(self, transaction: MysqlTransaction) -> None:
        self._transaction = transaction
        self._last: dict[QueueKey, tuple[int, int]] = {}

    async def lock(self, keys: Collection[tuple[int, JobKey]]) -> None:
        """Lock keys of queues, given by id; nobody else stores jobs of these keys until the transaction ends."""
        if not keys:
            return
        ordered = sorted({queue_key(*key) for key in keys if key[1].is_ordered})
        lasts = [self._transaction.bind("last_of_key", **key.values) for key in ordered]
        _, *found = await self._transaction.run(_lock(self._transaction, {queue_key(*key) for key in keys}), *lasts)
        for key, result in zip(ordered, found, strict=True):
            for last in result.rows:
                self._last[key] = last

    def run_after(self, queue_id: int, local_id: int, job: NewJob | JobRecord) -> int | None:
        """Return the ``run_after`` to store a job with; one with a key waits for it, until ``let_next_through``."""
        if job.key is None:
            return job.run_after_ms
        due = self._transaction.now if job.run_after_ms is None else job.run_after_ms
        waits_until = min(without_wait(due), WAITS_FOR_KEY_MS - 1) + WAITS_FOR_KEY_MS
        if not job.key.is_ordered:
            return waits_until
        key = queue_key(queue_id, job.key)
        last, last_id = self._last.get(key, (0, 0))
        # Servers take ids from blocks of their own, so they do not tell the order.
        waits_until = max(waits_until, last if last_id < local_id else last + 1)
        self._last[key] = waits_until, local_id
        return waits_until


def queue_key(queue_id: int, key: JobKey) -> QueueKey:
    """Return a key of a queue."""
    return QueueKey(queue_id, key.text.encode())


def key_columns(key: JobKey | None) -> bytes:
    """Return what is stored of a job's key, as SQL."""
    if key is None:
        return b"NULL,NULL"
    limit = stored_limit(key)
    return b"%b,%b" % (blob(key.text.encode()), b"NULL" if limit is None else b"%d" % limit)
