"""Keys of jobs: PENDING and waiting for its key -> PENDING and let through, in the transaction that makes room.

A transaction changes jobs first, then locks their keys, and only then decides which jobs to let through. So decisions
about a key are serialized over all servers, and each sees all changes before it. The lock of a key is one of a fixed
number of rows, so several keys may share one.

Decisions read ``keyed_jobs``, a table with copies of the unfinished jobs that have keys. A copy is only changed under
the lock of its key, and always taken from the job's row.
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
from pinlater.server.backends.key_rates import IDLE_MS, KeyRate
from pinlater.server.backends.key_turns import TURN_JOBS, KeyedJob, KeyState, let_through, stored_limit, turns
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.key_rates import count_starts, decide, parse_rate_of_key, put_rate, read_rates
from pinlater.server.backends.mysql.key_reads import read_jobs, read_values
from pinlater.server.backends.mysql.queries import blob
from pinlater.server.backends.mysql.transaction import MysqlTransaction

_LOCKS = 256
_AT_ONCE = 10
"""How many jobs that wait for a key are read by one query."""


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
        """The values that statements about the key take."""
        return {"queue": self.queue_id, "key": self.text}


Keys = dict[int, QueueKey]
"""Keys of jobs, by job id."""


async def keys_of(transaction: MysqlTransaction, ids: Iterable[int]) -> Keys:
    """Return the keys of those jobs that have one."""
    given = sorted(ids)
    return keys_in(await transaction.rows("keys_of_jobs", ids=given)) if given else {}


def keys_in(rows: Iterable[tuple[Any, ...]]) -> Keys:
    """Return the keys in rows of ``keys_of_jobs``."""
    return {local_id: QueueKey(queue_id, key) for local_id, queue_id, key in rows}


class Through(NamedTuple):
    """Which jobs were let through.

    Attributes:
        counts: how many of each key.
        first_due: when the first of them is due, in epoch milliseconds; None: none was let through.
    """

    counts: Counter[QueueKey]
    first_due: int | None


async def let_next_through(
    transaction: MysqlTransaction, changed: Keys, wanted: int = 0, *, is_claim: bool = False
) -> Through:
    """Let the jobs through whose turn it is, after others of their keys were changed.

    Args:
        transaction: has changed jobs.
        changed: keys of the jobs that it may have changed.
        wanted: how many more jobs the dequeues could take, with no others due.
        is_claim: whether it has claimed the jobs, which makes no room where the first waiting job has a limit.
    """
    through, first_due = Counter[QueueKey](), None
    left: Sequence[QueueKey] = sorted(set(changed.values()))
    turn_jobs = max(TURN_JOBS, wanted // max(len(left), 1))
    pending = [_lock(transaction, left), *_copy(transaction, changed)] if left else []
    while left:
        states = await _states(transaction, left, pending)
        looks = await _look(transaction, {key: state for key, state in states.items() if state.is_in_turn(is_claim)})
        decided = {key: turns(*look[:2], transaction.now, turn_jobs) for key, look in looks.items()}
        decided |= await _paced(transaction, states, changed, is_claim=is_claim)
        for key, run_after in decided.items():
            through[key] += let_through(run_after)
            first_due = min(filter(None, (first_due, *run_after.values())), default=None)
        left = [key for key, look in looks.items() if look.is_cut and len(decided[key]) >= len(look.waiting)]
        pending = list(_apply(transaction, decided.values()))
    if pending:
        await transaction.run(*pending)
    return Through(through, first_due)


def _lock(transaction: MysqlTransaction, keys: Iterable[QueueKey]) -> bytes:
    """Return the statement that locks keys, in the order that all transactions use."""
    rows = [b"(%d,0)" % lock for lock in sorted({key.lock for key in keys})]
    return b" ".join([transaction.bind("lock_keys"), b",".join(rows), transaction.bind("change_key_locks")])


def _copy(transaction: MysqlTransaction, ids: Iterable[int]) -> Iterator[bytes]:
    """Yield the statements that update the copies of jobs."""
    given = sorted(ids)
    yield transaction.bind("delete_keyed_jobs", ids=given)
    yield transaction.bind("insert_keyed_jobs_again", ids=given)


class _State(NamedTuple):
    """The state of a key that is read first.

    Attributes:
        is_limited: whether the first waiting job has a limit; None: none waits.
        pending: how many jobs are let through and not claimed.
        rate: state of the key's rate; None: it has none.
    """

    is_limited: int | None
    pending: int
    rate: KeyRate | None

    def is_in_turn(self, is_claim: bool) -> bool:
        """Return whether waiting jobs of a key without a rate may be let through, after a claim or another change."""
        return self.rate is None and self.is_limited is not None and not (is_claim and self.is_limited)


async def _paced(
    transaction: MysqlTransaction, states: Mapping[QueueKey, _State], changed: Keys, *, is_claim: bool
) -> dict[QueueKey, dict[int, int]]:
    """Return the new ``run_after`` of jobs of the keys with a rate, by key and job id."""
    rates = {key: state.rate for key, state in states.items() if state.rate is not None}
    if not rates:
        return {}
    after = count_starts(transaction, rates, changed) if is_claim else rates
    limited = {key for key in rates if states[key].is_limited}
    return await decide(transaction, after, {} if is_claim else changed, limited)


async def _states(
    transaction: MysqlTransaction, keys: Sequence[QueueKey], before: Sequence[bytes]
) -> dict[QueueKey, _State]:
    """Execute statements, then read the states of keys; return those of keys with waiting jobs or a rate."""
    values = await read_values(transaction, keys, ("first_of_key", "pending_of_key", "rate_of_key"), before)
    found = zip(keys, values[::3], values[1::3], map(parse_rate_of_key, values[2::3]), strict=True)
    return {key: _State(*rest) for key, *rest in found if rest[0] is not None or rest[2] is not None}


class _Look(NamedTuple):
    """What a decision about a key is based on; ``is_cut``: more jobs may wait than were read."""

    state: KeyState
    waiting: Sequence[KeyedJob]
    is_cut: bool


async def _look(transaction: MysqlTransaction, states: Mapping[QueueKey, _State]) -> dict[QueueKey, _Look]:
    """Read which jobs wait for keys. Running jobs, which may be many, are only counted where there is a limit."""
    found = await read_jobs(transaction, [_parts(transaction, place, *one) for place, one in enumerate(states.items())])
    looks: dict[QueueKey, _Look] = {}
    for place, (key, (is_limited, pending, _)) in enumerate(states.items()):
        first = sorted(found[place, "waiting"], key=itemgetter(1, 0))
        waiting = first if is_limited else [*takewhile(lambda job: job.limit is None, first)]
        running = found[place, "running"][0].local_id if is_limited else 0
        is_cut = len(first) == _AT_ONCE or len(waiting) < len(first)
        looks[key] = _Look(KeyState(running, pending, found[place, "scheduled"]), waiting, is_cut)
    return looks


def _parts(transaction: MysqlTransaction, place: int, key: QueueKey, state: _State) -> Iterator[bytes]:
    """Yield the queries for one key; their results have the same columns."""
    yield transaction.bind("waiting_for_key", place=place, limit=_AT_ONCE, **key.values)
    if state.is_limited:
        yield transaction.bind("running_of_key", place=place, **key.values)
    if state.pending:
        yield transaction.bind("scheduled_of_key", place=place, now=transaction.now, **key.values)


def _apply(transaction: MysqlTransaction, decided: Iterable[Mapping[int, int]]) -> Iterator[bytes]:
    """Yield the statements that carry out decisions: new ``run_after`` by job id, for each key."""
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for changes in decided:
        for local_id, run_after in changes.items():
            ids[run_after].append(local_id)
    for run_after, some in ids.items():
        yield transaction.bind("set_run_after", run_after=run_after, ids=sorted(some))
    if ids:
        yield from _copy(transaction, (local_id for some in ids.values() for local_id in some))


class KeyLine:
    """Gives new jobs their places behind the other jobs of their keys.

    Args:
        transaction: stores the jobs.
    """

    def __init__(self, transaction: MysqlTransaction) -> None:
        self._transaction = transaction
        self._last: dict[QueueKey, tuple[int, int]] = {}

    async def lock(self, keys: Collection[tuple[int, JobKey]]) -> None:
        """Lock keys, given as (queue id, key): nobody else stores jobs with them until the transaction ends."""
        if not keys:
            return
        ordered = sorted({queue_key(*key) for key in keys if key[1].is_ordered})
        lasts = [self._transaction.bind("last_of_key", **key.values) for key in ordered]
        _, *found = await self._transaction.run(_lock(self._transaction, {queue_key(*key) for key in keys}), *lasts)
        for key, result in zip(ordered, found, strict=True):
            for last in result.rows:
                self._last[key] = last

    async def set_rates(self, rates: Mapping[QueueKey, str]) -> None:
        """Set the rates of locked keys; jobs that the previous rate of a key holds back go by the new one."""
        transaction, held_until, after = self._transaction, {}, {}
        for key, before in (await read_rates(transaction, list(rates))).items():
            if before is None:
                put_rate(transaction, key, KeyRate(rates[key]))
            elif before.text != rates[key]:
                held_until[key] = before.starts_at(transaction.now)
                after[key] = before.changed_to(rates[key])
                put_rate(transaction, key, after[key])
        if after:
            decided = await decide(transaction, after, {}, after.keys(), held_until)
            transaction.later(*_apply(transaction, decided.values()))

    def run_after(self, queue_id: int, local_id: int, job: NewJob | JobRecord) -> int | None:
        """Return the ``run_after`` to store; a job with a key waits for the key until ``let_next_through``."""
        if job.key is None:
            return job.run_after_ms
        due = self._transaction.now if job.run_after_ms is None else job.run_after_ms
        waits_until = min(without_wait(due), WAITS_FOR_KEY_MS - 1) + WAITS_FOR_KEY_MS
        if not job.key.is_ordered:
            return waits_until
        key = queue_key(queue_id, job.key)
        last, last_id = self._last.get(key, (0, 0))
        # Each server takes ids from its own blocks, so ids do not tell the order of arrival.
        waits_until = max(waits_until, last if last_id < local_id else last + 1)
        self._last[key] = waits_until, local_id
        return waits_until


async def keep_rates(transaction: MysqlTransaction, keys: Keys) -> None:
    """Restore the rates of keys whose jobs have been retried or imported with one; a newer rate stays."""
    if keys:
        await transaction.run(
            _lock(transaction, keys.values()), transaction.bind("keep_rates_of_jobs", ids=sorted(keys))
        )


async def forget_rates(database: Database, limit: int) -> int:
    """Check up to ``limit`` rates that have long held back nothing; delete those no job needs. Return how many."""
    idle_us = IDLE_MS * 1000
    found = await database.rows_at(
        lambda now: database.queries.bind("idle_rates", before=now * 1000 - idle_us, limit=limit)
    )
    keys = [QueueKey(*row) for row in found]
    if not keys:
        return 0

    async def change(transaction: MysqlTransaction) -> int:
        now_us, forgotten = transaction.now * 1000, 0
        await transaction.run(_lock(transaction, keys))
        for key in keys:
            values = {**key.values, "before": now_us - idle_us}
            delete = transaction.bind("forget_rate_of_key", **values)
            done, _ = await transaction.run(delete, transaction.bind("touch_rate_of_key", now_us=now_us, **values))
            forgotten += done.matched
        return forgotten

    return await database.change(change, is_repeatable=True)


def queue_key(queue_id: int, key: JobKey) -> QueueKey:
    """Return the ``QueueKey`` of a key in a queue."""
    return QueueKey(queue_id, key.text.encode())


def key_columns(key: JobKey | None) -> bytes:
    """Return the values of the key columns of a job, as SQL."""
    if key is None:
        return b"NULL,NULL,NULL"
    limit, rate = stored_limit(key), key.rate
    limit_text = b"NULL" if limit is None else b"%d" % limit
    return b"%b,%b,%b" % (blob(key.text.encode()), limit_text, b"NULL" if rate is None else blob(rate.encode()))
