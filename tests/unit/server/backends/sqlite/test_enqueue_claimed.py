"""A job that is stored as claimed: nobody can tell it from one that was stored first and claimed then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.model.jobs import NewJob
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs
from pinlater.server.backends.sqlite.enqueue import EnqueueRequest, enqueue
from pinlater.server.backends.sqlite.enqueue_claimed import enqueue_and_claim
from tests.support.examples import examples
from tests.unit.server.backends.sqlite.memory_store import NOW, PREFIXES, Store, dequeues, jobs, priorities, queue_ids

KEY = IdempotencyKey(b"key", 60_000)
DEQUEUE = SqliteClaimRequest(1, PREFIXES, 1, 1000, "h:1:1:w:1", 10, True, None)

new_jobs = st.builds(
    NewJob,
    st.binary(max_size=300),
    priorities,
    st.sampled_from([None, None, None, NOW - 2, NOW, NOW + 2]),
    st.integers(1, 3),
    st.sampled_from(["", "status"]),
    st.none(),
)
enqueues = st.builds(
    EnqueueRequest, queue_ids, st.lists(new_jobs, min_size=1, max_size=2), st.sampled_from([None, None, KEY])
)


def one_by_one(transaction, requests):
    enqueuing, dequeue = requests
    return [*enqueue(transaction, [enqueuing]), *claim_jobs(transaction, [dequeue])]


@examples(60)
@given(st.lists(jobs, max_size=4), enqueues, dequeues, st.booleans())
def test_it_does_what_an_enqueue_and_a_dequeue_do_one_by_one(rows, enqueuing, dequeue, is_repeated):
    together, apart = Store(rows), Store(rows)
    if is_repeated:
        for store in (together, apart):
            enqueue(store.transaction, [enqueuing])
    first_id, dequeued = enqueue_and_claim(together.transaction, [enqueuing, dequeue])
    expected_id, expected = one_by_one(apart.transaction, [enqueuing, dequeue])
    assert first_id == expected_id
    assert together.content() == apart.content()
    assert dequeued == expected


def test_it_is_one_insertion_beside_the_proof_that_nothing_stands_before_it():
    store = Store([(1, 0, 2, NOW + 5, "", b"later", 2)])
    [_, dequeued] = enqueue_and_claim(store.transaction, [EnqueueRequest(1, [NewJob(b"body")]), DEQUEUE])
    assert [job.body for job in dequeued.jobs] == [b"body"]
    assert (dequeued.next_due_ms, dequeued.has_more) == (NOW + 5, False)
    changes = [text for text in store.statements if not text.startswith("SELECT")]
    assert [text.split()[0] for text in changes if "jobs" in text.split("(")[0]] == ["INSERT"]


@pytest.mark.parametrize("priority", [1, 2])
def test_a_job_that_is_due_already_comes_first(priority):
    store = Store([(1, 0, 1, NOW, "", b"before", 2)])
    new = NewJob(b"after", priority=priority)
    [_, dequeued] = enqueue_and_claim(store.transaction, [EnqueueRequest(1, [new]), DEQUEUE])
    assert [job.body for job in dequeued.jobs] == [b"before"]
    assert dequeued.has_more
