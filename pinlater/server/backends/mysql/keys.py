"""Keys of jobs: PENDING and waiting for its key -> PENDING and let through, in the transaction that makes room.

A transaction changes jobs first, then locks their keys, and only then decides which jobs to let through. One that adds
jobs locks their keys first: mostly, it can decide before it adds them (``key_line``). So decisions about a key are
serialized over all servers, and each sees all changes before it. The lock of a key is one of a fixed number of rows, so
several keys may share one.

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

from pinlater.model.keys import JobKey
from pinlater.server.backends.key_rates import IDLE_MS
from pinlater.server.backends.key_turns import TURN_JOBS, KeyedJob, KeyState, let_through, stored_limit, turns
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.key_rates import count_starts, decide
from pinlater.server.backends.mysql.key_reads import FirstOfKey, StateOfKey, read_jobs, read_keys
from pinlater.server.backends.mysql.queries import blob
from pinlater.server.backends.mysql.transaction import MysqlTransaction

_LOCKS = 256
_AT_ONCE = 10
_MOST_AT_ONCE = 1000
"""How many jobs that wait for a key are read by one query: more if a dequeue can take more."""


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
    return {local_id: QueueKey(queue_id, key) for local_id, queue_id, key, _ in rows}


def ended_in(rows: Iterable[tuple[Any, ...]]) -> set[int]:
    """Return the ids of the jobs in rows of ``keys_of_jobs`` that have ended."""
    return {local_id for local_id, *_, has_ended in rows if has_ended}


class Through(NamedTuple):
    """Which jobs were let through.

    Attributes:
        counts: how many of each key.
        run_after: when each is due, in epoch milliseconds, by job id; the store may not have these times yet.
        results: results of the statements that changed other jobs before.
    """

    counts: Counter[QueueKey]
    run_after: dict[int, int]
    results: Sequence[StatementResult] = ()

    def due(self, now: int) -> list[int]:
        """Return the ids of those that are due."""
        return [local_id for local_id, run_after in self.run_after.items() if run_after <= now]


async def let_next_through(
    transaction: MysqlTransaction,
    changed: Keys,
    wanted: int = 0,
    *,
    is_claim: bool = False,
    before: Sequence[bytes] = (),
    ended: Collection[int] | None = None,
) -> Through:
    """Let the jobs through whose turn it is, after others of their keys were changed.

    Args:
        transaction: has changed jobs.
        changed: keys of the jobs that it may have changed; not empty if ``before`` has statements.
        wanted: how many more jobs the dequeues could take, with no others due.
        is_claim: whether it has claimed the jobs, which makes no room where the first waiting job has a limit.
        before: the last statements that change jobs, to be executed first.
        ended: ids of those that have ended, if the others surely have not; None: not known.
    """
    through = Through(Counter(), {}, [])
    left: Sequence[QueueKey] = sorted(set(changed.values()))
    turn_jobs = 0
    pending = [*before, lock_statement(transaction, left), *_copy(transaction, changed, ended)] if left else []
    while left:
        states, executed = await _states(transaction, left, pending)
        if not turn_jobs:
            through = through._replace(results=executed[: len(before)])
            in_line = sum(state.first is not None and state.rate is None for state in states.values())
            turn_jobs = max(TURN_JOBS, wanted // max(in_line, 1))
        firsts = _in_turn(states, transaction.now, turn_jobs, is_claim=is_claim)
        decided = await _next_in_line(transaction, firsts, turn_jobs)
        others = [key for key in firsts if key not in decided]
        looks = await _look(transaction, others, turn_jobs, {key for key in others if firsts[key].limit is not None})
        for key, look in looks.items():
            decided[key] = turns(look.state, look.waiting, transaction.now, turn_jobs)
        decided |= await _paced(transaction, states, changed, is_claim=is_claim)
        for key, changes in decided.items():
            moved = let_through(changes)
            through.counts[key] += len(moved)
            through.run_after.update(moved)
        left = [key for key, look in looks.items() if look.is_cut and len(decided[key]) >= len(look.waiting)]
        pending = list(carry_out(transaction, decided.values()))
    transaction.later(*pending)
    return through


def lock_statement(transaction: MysqlTransaction, keys: Iterable[QueueKey]) -> bytes:
    """Return the statement that locks keys, in the order that all transactions use."""
    rows = [b"(%d,0)" % lock for lock in sorted({key.lock for key in keys})]
    return b" ".join([transaction.bind("lock_keys"), b",".join(rows), transaction.bind("change_key_locks")])


def _copy(transaction: MysqlTransaction, ids: Collection[int], ended: Collection[int] | None) -> Iterator[bytes]:
    """Yield the statements that update the copies of jobs; for ``ended``, see ``let_next_through``."""
    gone = sorted(ids if ended is None else ended)
    if len(gone) == 1:
        yield transaction.bind("delete_keyed_job", id=gone[0])
    elif gone:
        yield transaction.bind("delete_keyed_jobs", ids=gone)
    if stay := sorted(ids if ended is None else set(ids).difference(ended)):
        yield transaction.bind("copy_keyed_jobs", ids=stay)


def _in_turn(
    states: Mapping[QueueKey, StateOfKey], now: int, turn_jobs: int, *, is_claim: bool
) -> dict[QueueKey, FirstOfKey]:
    """Return those keys without a rate of which waiting jobs might be let through, after a claim or another change."""

    def is_in_turn(first: FirstOfKey) -> bool:
        return not is_claim if first.limit is not None else turn_jobs > 1 or not first.is_due(now)

    firsts = {key: state.first for key, state in states.items() if state.first is not None and state.rate is None}
    return {key: first for key, first in firsts.items() if is_in_turn(first)}


async def _next_in_line(
    transaction: MysqlTransaction, firsts: Mapping[QueueKey, FirstOfKey], turn_jobs: int
) -> dict[QueueKey, dict[int, int]]:
    """Decide about those keys that let one job through at a time, and have none let through: little need be read."""
    single = {
        key: first
        for key, first in firsts.items()
        if first.waits and (turn_jobs == 1 if first.limit is None else first.limit <= 1)
    }
    limited = [key for key, first in single.items() if first.limit is not None]
    values = (await read_keys(transaction, {"lines_of_keys": limited})).values["lines_of_keys"] if limited else {}
    running = defaultdict(int, {key: count for key, (count, _) in values.items()})
    return {
        key: turns(KeyState(running[key], 0, ()), [first.as_waiting()], transaction.now)
        for key, first in single.items()
    }


async def _paced(
    transaction: MysqlTransaction, states: Mapping[QueueKey, StateOfKey], changed: Keys, *, is_claim: bool
) -> dict[QueueKey, dict[int, int]]:
    """Return the new ``run_after`` of jobs of the keys with a rate, by key and job id."""
    rates = {key: state.rate for key, state in states.items() if state.rate is not None}
    if not rates:
        return {}
    after = count_starts(transaction, rates, changed) if is_claim else rates
    limited = {key for key in rates if (first := states[key].first) is not None and first.limit is not None}
    return await decide(transaction, after, {} if is_claim else changed, limited=limited)


async def _states(
    transaction: MysqlTransaction, keys: Sequence[QueueKey], before: Sequence[bytes]
) -> tuple[dict[QueueKey, StateOfKey], Sequence[StatementResult]]:
    """Execute statements, then read the states of keys; return these, and the results of the statements."""
    values, results = await read_keys(transaction, {"states_of_keys": keys}, before)
    found = values["states_of_keys"].items()
    return {key: StateOfKey.parse(*row) for key, row in found}, results


class _Look(NamedTuple):
    """What a decision about a key is based on.

    Attributes:
        state: its jobs that are let through or running.
        waiting: the first jobs that wait.
        is_cut: whether more may wait than were read.
    """

    state: KeyState
    waiting: Sequence[KeyedJob]
    is_cut: bool


async def _look(
    transaction: MysqlTransaction, keys: Collection[QueueKey], turn_jobs: int, limited: Collection[QueueKey]
) -> dict[QueueKey, _Look]:
    """Read which jobs wait for keys. Running jobs, which may be many, are only counted where there is a limit."""
    most = min(max(turn_jobs + 1, _AT_ONCE), _MOST_AT_ONCE)  # one more, to see that it is not yet its turn
    found = await read_jobs(
        transaction,
        [_parts(transaction, place, key, most, is_counted=key in limited) for place, key in enumerate(keys)],
    )
    if more := found.uncounted(keys, limited):
        return await _look(transaction, keys, turn_jobs, {*limited, *more})
    looks: dict[QueueKey, _Look] = {}
    for place, key in enumerate(keys):
        first = sorted(found[place, "waiting"], key=itemgetter(1, 0))
        waiting = first if key in limited else [*takewhile(lambda job: job.limit is None, first)]
        running = found.running(place) if key in limited else 0
        pending = found[place, "pending"]
        state = KeyState(running, len(pending), [job for job in pending if job.run_after > transaction.now])
        is_cut = len(first) == most or len(waiting) < len(first)
        looks[key] = _Look(state, waiting, is_cut)
    return looks


def _parts(transaction: MysqlTransaction, place: int, key: QueueKey, most: int, *, is_counted: bool) -> Iterator[bytes]:
    """Yield the queries for one key; their results have the same columns."""
    yield transaction.bind("waiting_for_key", place=place, limit=most, **key.values)
    yield transaction.bind("pending_of_key", place=place, **key.values)
    if is_counted:
        yield transaction.bind("running_of_key", place=place, **key.values)


def carry_out(transaction: MysqlTransaction, decided: Iterable[Mapping[int, int]]) -> Iterator[bytes]:
    """Yield the statements that carry out decisions: new ``run_after`` by job id, for each key."""
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for changes in decided:
        for local_id, run_after in changes.items():
            ids[run_after].append(local_id)
    for run_after, some in ids.items():
        for name in ("set_run_after", "set_run_after_of_keyed", "set_run_after_of_failing"):
            yield transaction.bind(name, run_after=run_after, ids=sorted(some))


def keep_rates(transaction: MysqlTransaction, keys: Keys) -> Iterator[bytes]:
    """Yield the statements that restore the rates of keys whose jobs are retried or imported with one.

    A newer rate stays.
    """
    if keys:
        yield lock_statement(transaction, keys.values())
        yield transaction.bind("keep_rates_of_jobs", ids=sorted(keys))


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
        await transaction.run(lock_statement(transaction, keys))
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
