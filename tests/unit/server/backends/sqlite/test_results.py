"""Results of the SQLite store: one statement stores those of many jobs, whatever their size."""

from tests.support.bench import QUEUE, ack_of, new_job


def test_a_result_of_more_than_16_mib_leaves_those_beside_it_whole(store):
    names = store.put(*[new_job() for _ in range(3)])
    store.take()
    results = [b"before", b"large" * (2**24 // 5 + 1), b"after"]
    acks = [ack_of(name, result=result) for name, result in zip(names, results, strict=True)]
    assert store.ack_dequeued_jobs(QUEUE, acks, []).changed == 3
    found = [store.look(name, include_result=True).result for name in names]
    assert [one == result for one, result in zip(found, results, strict=True)] == [True] * 3
