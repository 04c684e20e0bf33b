"""Enqueues, dequeues and acks that share statements: each gets what it would get by itself, in its turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import JobFailure
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.messages import MessageKind
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sqlite.ack import SqliteAckRequest, ack_jobs
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs
from pinlater.server.backends.sqlite.enqueue import EnqueueRequest, enqueue, enqueue_keyed
from pinlater.server.backends.sqlite.families import Family
from tests.support.bench import new_job
from tests.support.examples import examples
from tests.unit.server.backends.sqlite.memory_store import (
    CLAIMS,
    NOW,
    PREFIXES,
    Store,
    dequeues,
    jobs,
    priorities,
    queue_ids,
)

acks = st.builds(
    StoredAck,
    st.builds(JobDescriptor, st.just("q"), st.just("1"), priorities, st.integers(0, 12)),
    st.sampled_from([None, *CLAIMS]),
    st.sampled_from(["", "", "", "done"]),
    st.just(5),
    st.booleans(),
    st.sampled_from([None, None, b"", b"\xff\0"]),
    st.booleans(),
    failure=st.sampled_from(
        [None, JobFailure(7, "Send", "OSError", "OSError"), JobFailure(8, "", "KeyError: #", "KeyError: 1")]
    ),
    run_ms=st.sampled_from([None, None, 60, 70]),
)
ack_calls = st.builds(
    SqliteAckRequest,
    queue_ids,
    st.lists(acks, max_size=12),
    st.one_of(st.just([]), st.just([]), st.lists(acks, max_size=2)),
)

enqueues = st.builds(
    EnqueueRequest,
    queue_ids,
    st.lists(
        st.builds(NewJob, st.binary(max_size=9), priorities, st.sampled_from([None, 0, NOW + 5]), st.integers(1, 3)),
        min_size=1,
        max_size=3,
    ),
    st.none() | st.builds(IdempotencyKey, st.sampled_from([b"a" * 16, b"b" * 16, b"c" * 16]), st.just(1000)),
)


def carry_out_both_ways(verb, rows, requests, *, families=None):
    together, apart = Store(rows), Store(rows)
    if families is not None:
        for store in (together, apart):
            parent = store.make_children(1, '[["join", 2]]')
        for first, end in families:
            together.transaction.families.add(Family(first, end, parent, "join", 0))
    results = verb(together.transaction, requests)
    expected = [verb(apart.transaction, [request])[0] for request in requests]
    assert together.content() == apart.content()
    assert together.messages() == apart.messages()
    return results, expected


def assert_alike(verb, rows, requests, *, families=None):
    results, expected = carry_out_both_ways(verb, rows, requests, families=families)
    assert results == expected


def assert_claim_alike(rows, requests):
    """Dequeues of one transaction know what those after them have left; one by one, they do not."""
    results, expected = carry_out_both_ways(claim_jobs, rows, requests)
    assert [found.jobs for found in results] == [found.jobs for found in expected]
    for found, alone in zip(results, expected, strict=True):
        assert found == alone or (alone.has_more and not found.has_more)
    assert results[-1:] == expected[-1:]


@examples(60)
@given(st.lists(enqueues, max_size=8))
def test_enqueues_of_many_calls_store_what_they_store_one_by_one(requests):
    assert_alike(enqueue, [], requests)


@pytest.mark.parametrize("calls", [1, 99, 100, 101, 250])
def test_enqueues_into_one_queue_share_statements(calls):
    store = Store([])
    store.transaction.take_ids(1)  # reserves a block of ids
    store.statements.clear()
    requests = [EnqueueRequest(1, [NewJob(b"%d" % number)]) for number in range(calls)]
    first_ids = enqueue(store.transaction, requests)
    assert len(store.statements) == -(-calls // 100)
    bodies = {row[0]: row[13] for row in store.content()}
    assert [bodies[first_id] for first_id in first_ids] == [b"%d" % number for number in range(calls)]


@examples(60)
@given(st.lists(jobs, max_size=12), st.lists(ack_calls, max_size=8))
def test_acks_of_many_calls_do_what_they_do_one_by_one(rows, requests):
    assert_alike(ack_jobs, rows, requests)


@examples(60)
@given(st.lists(jobs, max_size=12), st.lists(ack_calls, max_size=8), st.data())
def test_acks_of_children_tell_their_parent_what_they_tell_it_one_by_one(rows, requests, data):
    """Also if the parents of some are remembered."""
    children = [at for at, (queue_id, *_) in enumerate(rows, 1) if queue_id == 1]
    remembered = data.draw(st.lists(st.sampled_from(children), unique=True)) if children else []
    assert_alike(ack_jobs, rows, requests, families=[(at, at + 1) for at in sorted(remembered)])


@examples(60)
@given(st.lists(jobs, max_size=30), st.lists(dequeues, max_size=8))
def test_many_dequeues_get_what_they_get_one_by_one(rows, requests):
    assert_claim_alike(rows, requests)


@pytest.mark.parametrize("size", [200_000, 1_200_000])
def test_dequeues_of_large_jobs_get_what_they_get_one_by_one(size):
    rows = [(1, 0, 1, NOW, "", bytes([number]) * size, 2) for number in range(8)]
    requests = [SqliteClaimRequest(1, PREFIXES, 2, 1 << 24, claim, 10, True, None) for claim in CLAIMS[:3]]
    assert_claim_alike(rows, requests)


def test_dequeues_of_one_queue_share_statements():
    store = Store([(1, 0, 1, NOW, "", b"body", 2)] * 100)
    requests = [SqliteClaimRequest(1, PREFIXES, 1, 1000, f"h:1:1:w:{number}", 10, True, None) for number in range(64)]
    claimed = claim_jobs(store.transaction, requests)
    assert [job.descriptor for found in claimed for job in found.jobs] == [f"q:s1:p1:{n}" for n in range(1, 65)]
    assert len(store.statements) == 3


def test_acks_of_one_queue_share_statements():
    store = Store([(1, 1, 1, NOW, CLAIMS[0], b"body", 2)] * 64)
    requests = [
        SqliteAckRequest(1, [StoredAck(JobDescriptor("q", "1", 1, number), CLAIMS[0], "", 0, False)], [])
        for number in range(1, 65)
    ]
    settled = ack_jobs(store.transaction, requests)
    assert [(one.changed, one.stale) for one in settled] == [(1, 0)] * 64
    assert len(store.statements) == 2


def test_acks_of_children_share_statements_too():
    store = Store([(1, 1, 1, NOW, CLAIMS[0], b"body", 2)] * 64)
    parent = store.make_children(1, '[["join", 64]]')
    acks = [StoredAck(JobDescriptor("q", "1", 1, n), CLAIMS[0], "", 0, False, b"%d" % n) for n in range(1, 65)]
    settled = ack_jobs(store.transaction, [SqliteAckRequest(1, [ack], []) for ack in acks])
    assert [one.changed for one in settled] == [1] * 64
    assert len(store.statements) <= 9
    assert [row[4] for row in store.content() if row[0] == parent] == [NOW]
    assert store.messages() == {str(n): (MessageKind.SUCCEEDED, b"%d" % n) for n in range(1, 65)}
    assert store.transaction.woken == {(9, 1): 1}


def test_dequeues_of_one_transaction_take_turns_between_keys():
    """All that they let through is due at the same moment, so the key with the older jobs could always be the first."""
    store = Store([])
    older, newer = ([new_job(key=JobKey(text))] * 8 for text in "ab")
    first, second = enqueue_keyed(store.transaction, [EnqueueRequest(1, older), EnqueueRequest(1, newer)])
    found = claim_jobs(store.transaction, [SqliteClaimRequest(1, PREFIXES, 1, 10**6, CLAIMS[0], 10, True, None)] * 8)
    assert ids_of(found) == {local_id for some in (first[:4], second[:4]) for _, local_id in some}


def ids_of(found):
    return {JobDescriptor.parse(job.descriptor).local_id for one in found for job in one.jobs}


job_keys = st.sampled_from(
    [None, JobKey("a"), JobKey("b"), JobKey("one", 1), JobKey("two", 2), JobKey("ordered", 1, is_ordered=True)]
)
keyed_jobs = st.builds(
    lambda key, priority, due: new_job(key=key, priority=priority, run_after_ms=due),
    job_keys,
    priorities,
    st.sampled_from([None, None, NOW - 2, NOW + 2]),
)
keyed_enqueues = st.lists(keyed_jobs, min_size=1, max_size=30)


def keyed_store(batches):
    store = Store([])
    for batch in batches:
        enqueue_keyed(store.transaction, [EnqueueRequest(1, batch)])
    return store


@examples(60)
@given(st.lists(keyed_enqueues, max_size=3), st.lists(st.integers(0, 10), min_size=2, max_size=8))
def test_dequeues_of_jobs_with_keys_get_together_what_one_dequeue_gets(batches, limits):
    """They are those of one transaction, so it does not matter which of them gets which job."""
    together, alone = keyed_store(batches), keyed_store(batches)
    requests = [SqliteClaimRequest(1, PREFIXES, limit, 10**6, CLAIMS[0], 10, True, None) for limit in limits]
    found = claim_jobs(together.transaction, requests)
    [expected] = claim_jobs(alone.transaction, [requests[0]._replace(limit=sum(limits))])
    assert ids_of(found) == ids_of([expected])
    assert together.content() == alone.content()
    for one, limit in zip(found, limits, strict=True):
        if limit:
            assert (one.has_more, one.next_due_ms) == (expected.has_more, expected.next_due_ms)


@examples(60)
@given(st.lists(keyed_enqueues, max_size=3), st.lists(st.integers(1, 3), min_size=2, max_size=8), st.randoms())
def test_acks_of_jobs_with_keys_let_through_what_they_let_through_one_by_one(batches, sizes, random):
    together, apart = keyed_store(batches), keyed_store(batches)
    request = SqliteClaimRequest(1, PREFIXES, 20, 10**6, CLAIMS[0], 10, True, None)
    for store in (together, apart):
        [found] = claim_jobs(store.transaction, [request])
    acks = [StoredAck(JobDescriptor.parse(job.descriptor), CLAIMS[0], "", 0, False) for job in found.jobs]
    random.shuffle(acks)
    requests = [SqliteAckRequest(1, [acks.pop() for _ in range(min(size, len(acks)))], []) for size in sizes]
    settled = ack_jobs(together.transaction, requests)
    one_by_one = [ack_jobs(apart.transaction, [request])[0] for request in requests]
    assert sum(one.let_through for one in settled) == sum(one.let_through for one in one_by_one)
    assert [one.changed for one in settled] == [one.changed for one in one_by_one]
    assert together.content() == apart.content()


@examples(60)
@given(st.lists(keyed_enqueues, max_size=8))
def test_enqueues_of_jobs_with_keys_store_together_what_one_enqueue_of_all_jobs_stores(batches):
    together, alone = Store([]), Store([])
    enqueue_keyed(together.transaction, [EnqueueRequest(1, batch) for batch in batches])
    if batches:
        enqueue_keyed(alone.transaction, [EnqueueRequest(1, [job for batch in batches for job in batch])])
    assert together.content() == alone.content()


@pytest.mark.parametrize("key", [None, JobKey("a"), JobKey("a", 1, is_ordered=True)])
def test_a_job_with_a_key_that_the_next_enqueue_replaces_is_the_one_that_was_let_through(key):
    rule = UniqueRule(on_duplicate=OnDuplicate.DEBOUNCE)
    jobs = [new_job(key=key, unique_key="x", rule=rule, run_after_ms=due) for due in (NOW + 2, NOW)]
    assert_alike(enqueue_keyed, [], [EnqueueRequest(1, [job]) for job in jobs])


def flood(keys):
    """Return a store with many jobs of one key and one job of each of some others."""
    return keyed_store([[new_job(key=JobKey("flood"))] * 200, [new_job(key=JobKey(f"{n}")) for n in range(keys)]])


@pytest.mark.parametrize("others", [5, 30])
def test_calls_for_jobs_with_keys_share_statements(others):
    store = flood(others)
    requests = [SqliteClaimRequest(1, PREFIXES, 1, 10**6, CLAIMS[0], 10, True, None)] * 20
    store.statements.clear()
    found = claim_jobs(store.transaction, requests)
    assert [len(one.jobs) for one in found] == [1] * 20
    assert len([text for text in store.statements if "SET run_after" not in text]) <= 13  # two rounds at most
    acks = [StoredAck(JobDescriptor.parse(one.jobs[0].descriptor), CLAIMS[0], "", 0, False) for one in found]
    store.statements.clear()
    ack_jobs(store.transaction, [SqliteAckRequest(1, [ack], []) for ack in acks])
    assert len(store.statements) == 4
    store.statements.clear()
    enqueue_keyed(store.transaction, [EnqueueRequest(1, [new_job(key=JobKey(f"new {n}"))]) for n in range(20)])
    assert len([text for text in store.statements if text.startswith("SELECT")]) <= 2  # of which one reserves ids
