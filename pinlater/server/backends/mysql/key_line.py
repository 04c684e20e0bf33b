"""New jobs with keys: their places in line.

They are decided under the locks of the keys, before the jobs are stored. Where one read of the key does not tell, the
jobs are stored as waiting, and ``let_next_through`` decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey, without_wait
from pinlater.server.backends.key_rates import KeyRate
from pinlater.server.backends.key_turns import LEAD_MS, KeyedJob, KeyState, stored_limit, turns
from pinlater.server.backends.mysql.key_rates import decide, put_rate
from pinlater.server.backends.mysql.key_reads import StateOfKey, read_keys
from pinlater.server.backends.mysql.keys import Keys, QueueKey, carry_out, lock_statement, queue_key
from pinlater.server.backends.mysql.transaction import MysqlTransaction


class Places(NamedTuple):
    """Where new jobs stand.

    Attributes:
        run_after: to store, by job id.
        undecided: keys of the jobs that wait although their turn may have come, which is left to ``let_next_through``.
    """

    run_after: dict[int, int]
    undecided: Keys


class KeyLine:
    """Gives new jobs their places behind the other jobs of their keys, or lets them through.

    Args:
        transaction: stores the jobs.
    """

    def __init__(self, transaction: MysqlTransaction) -> None:
        self._transaction = transaction
        self._states: dict[QueueKey, StateOfKey] = {}
        self._running: dict[QueueKey, int] = {}
        self._last: dict[QueueKey, tuple[int, int]] = {}

    async def lock(self, keys: Collection[tuple[int, JobKey]]) -> None:
        """Lock keys, given as (queue id, key): nobody else stores jobs with them until the transaction ends."""
        if not keys:
            return
        found = sorted({queue_key(*key) for key in keys})
        limited = sorted({queue_key(*key) for key in keys if key[1].max_running is not None})
        lock = lock_statement(self._transaction, found)
        values, _ = await read_keys(self._transaction, {"states_of_keys": found, "lines_of_keys": limited}, [lock])
        self._states = {key: StateOfKey.parse(*row) for key, row in values["states_of_keys"].items()}
        for key, (running, last) in values["lines_of_keys"].items():
            self._running[key] = running
            if last is not None:
                run_after, local_id = map(int, last.split())
                self._last[key] = run_after, local_id

    async def set_rates(self, rates: Mapping[QueueKey, str]) -> None:
        """Set the rates of locked keys; jobs that the previous rate of a key holds back go by the new one."""
        transaction, held_until, after = self._transaction, {}, {}
        for key, text in rates.items():
            before = self._states[key].rate
            if before is None:
                put_rate(transaction, key, KeyRate(text))
            elif before.text != text:
                held_until[key] = before.starts_at(transaction.now)
                after[key] = before.changed_to(text)
                put_rate(transaction, key, after[key])
        if after:
            decided = await decide(transaction, after, {}, held_until)
            transaction.later(*carry_out(transaction, decided.values()))

    def place(self, jobs: Iterable[tuple[int, int, NewJob | JobRecord]]) -> Places:
        """Return the places of new jobs with locked keys, given as (queue id, job id, job) in the order of ids."""
        places = Places({}, {})
        lines: defaultdict[QueueKey, list[KeyedJob]] = defaultdict(list)
        rated: set[QueueKey] = set()
        for queue_id, local_id, job in jobs:
            if job.key is None:
                continue
            key = queue_key(queue_id, job.key)
            waits_until = self._waits_until(key, local_id, job, is_ordered=job.key.is_ordered)
            places.run_after[local_id] = waits_until
            lines[key].append(KeyedJob(local_id, waits_until - WAITS_FOR_KEY_MS, stored_limit(job.key)))
            if job.key.rate is not None:
                rated.add(key)
        for key, line in lines.items():
            decided = None if key in rated else self._let_through(key, sorted(line, key=itemgetter(1, 0)))
            places.run_after.update(decided or {})
            if decided is None:
                places.undecided.update((job.local_id, key) for job in line)
        return places

    def _waits_until(self, key: QueueKey, local_id: int, job: NewJob | JobRecord, *, is_ordered: bool) -> int:
        """Return the ``run_after`` of a job that waits for its key."""
        due = self._transaction.now if job.run_after_ms is None else job.run_after_ms
        waits_until = min(without_wait(due), WAITS_FOR_KEY_MS - 1) + WAITS_FOR_KEY_MS
        if not is_ordered:
            return waits_until
        last, last_id = self._last.get(key, (0, 0))
        # Each server takes ids from its own blocks, so ids do not tell the order of arrival.
        waits_until = max(waits_until, last if last_id < local_id else last + 1)
        self._last[key] = waits_until, local_id
        return waits_until

    def _let_through(self, key: QueueKey, line: Sequence[KeyedJob]) -> dict[int, int] | None:
        """Return the ``run_after`` of those new jobs of a key that need not wait, by id.

        None: what was read does not tell.
        """
        (first, rate), running = self._states[key], self._running.get(key, 0)
        if rate is not None:
            return None
        if first is None:
            return turns(KeyState(running, 0, ()), line, self._transaction.now, lead_ms=LEAD_MS)
        mosts = [None if job.limit is None else max(job.limit, 1) for job in line]
        if first.is_due(self._transaction.now) and all(most is None or most == 1 for most in mosts):
            return {}
        if first.waits and all(most is not None and running >= most for most in mosts):
            return {}
        return None
