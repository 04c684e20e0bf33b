"""Expired results of calls: a walk through all of them deletes them soon and never before, and needs no index."""

import asyncio
from itertools import pairwise
from math import ceil
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.protocol.idempotency import new_key
from pinlater.server.backends.records import IDEMPOTENCY_KEY_BYTES, IdempotencyKey
from pinlater.server.backends.sqlite import call_results, result_sweep
from pinlater.server.backends.sqlite.result_sweep import ResultSweep, find_expired
from tests.support.bench import QUEUE, new_job
from tests.support.examples import examples
from tests.unit.server.backends.sqlite.memory_store import NOW, Store

PER_DELETION = 3
HIGHEST = b"\xff" * IDEMPOTENCY_KEY_BYTES

keys = st.one_of(
    st.integers(0, 2**16).map(lambda ms: (NOW + ms).to_bytes(IDEMPOTENCY_KEY_BYTES, "big")),
    st.binary(min_size=IDEMPOTENCY_KEY_BYTES, max_size=IDEMPOTENCY_KEY_BYTES),
    st.just(HIGHEST),
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.builds(IdempotencyKey, keys, st.integers(1, 50))),
        st.tuples(st.just("wait"), st.integers(0, 30)),
        st.tuples(st.just("step"), st.integers(1, 4)),
    ),
    max_size=60,
)


class _Sweep:
    """A sweep over a store in memory, whose steps are checked."""

    def __init__(self):
        self.store = Store([])
        self.position = b""

    def rows(self):
        return dict(self.store.connection.execute("SELECT key, expires_at FROM call_results"))

    def step(self, limit):
        transaction, before = self.store.transaction, self.rows()
        self.position, expired = find_expired(self.store.connection, self.position, transaction.now, limit)
        deleted = 0 if expired is None else call_results.forget(transaction, [expired])[0]
        gone = before.keys() - self.rows().keys()
        assert len(gone) == deleted <= limit
        assert all(before[key] <= transaction.now for key in gone)
        return deleted


@mock.patch.object(result_sweep, "RESULTS_PER_DELETION", PER_DELETION)
@examples(50)
@given(events, st.integers(1, 4))
def test_what_has_expired_goes_within_a_walk_and_nothing_else_does(happened, limit):
    sweep = _Sweep()
    transaction = sweep.store.transaction
    for kind, value in happened:
        if kind == "store":
            call_results.save_new(transaction, [(value, 1)])
        elif kind == "wait":
            transaction.now += value
        else:
            sweep.step(value)
    rows, now = sweep.rows(), transaction.now
    expired = sum(until <= now for until in rows.values())
    walk = ceil((len(rows) + 1) / (limit * PER_DELETION))
    for _ in range(2 * walk + ceil(expired / limit)):
        sweep.step(limit)
    assert sweep.rows() == {key: until for key, until in rows.items() if until > now}


def test_as_many_are_kept_as_expire_during_a_walk():
    """Store at an even pace, with keys and times to be kept of all kinds: the table stops growing."""
    sweep, live = _Sweep(), 0
    transaction = sweep.store.transaction
    for number in range(4000):
        transaction.now += 1
        value = new_key() if number % 2 else number.to_bytes(8, "little") * 2
        call_results.save_new(transaction, [(IdempotencyKey(value, 1000 if number % 3 else 200), number)])
        if number % 100 == 0:
            while sweep.step(10) == 10:
                pass
            live = max(live, sum(until > transaction.now for until in sweep.rows().values()))
    assert len(sweep.rows()) <= live + 2 * 100  # a step of 10 looks at 500: a walk is two steps


class _Readers:
    def __init__(self, connection):
        self._connection = connection

    async def run(self, function, *arguments):
        return function(self._connection, *arguments)


class _Writer:
    """Deletes in a transaction, or fails."""

    def __init__(self, transaction):
        self._transaction = transaction
        self.fails = True

    async def submit(self, verb, request):
        if self.fails:
            raise OSError("disk full")
        return verb(self._transaction, [request])[0]


def test_what_could_not_be_deleted_is_found_again_by_the_next_step():
    store = Store([])
    for number in range(5):
        call_results.save_new(store.transaction, [(IdempotencyKey(bytes([number] * 16), 1), number)])
    store.transaction.now += 1
    writer = _Writer(store.transaction)
    sweep = ResultSweep(_Readers(store.connection), writer, lambda: store.transaction.now)
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(sweep.forget(2))
    writer.fails = False
    assert [asyncio.run(sweep.forget(2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_result_takes_one_page_of_the_commit_of_an_enqueue(store, home):
    """Beside that of the job, and that of the pending jobs."""
    log, sizes = home.folder / "pinlater.db-wal", []
    for _ in range(20):
        store.enqueue_jobs(QUEUE, [new_job()], once=IdempotencyKey(new_key(), 600_000))
        sizes.append(log.stat().st_size)
    pages = [(after - before) / (4096 + 24) for before, after in pairwise(sizes)]
    assert min(pages) == 3
