"""Results: what a job returned is kept with its success, and shown to who asks for it."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.contract.test_import import record
from tests.support.bench import QUEUE, ack_of, new_job

RESULTS = {"json": b'{"width": 3}', "empty": b"", "no utf-8": b"\xff\0\xfe", "large": bytes(range(256)) * 1024}


def result_of(backend, descriptor):
    return backend.look(descriptor, include_result=True).result


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("status", ["", "done;"])
def test_a_result_is_kept_with_the_success(backend, result, status):
    descriptor, claim = backend.started()
    assert backend.ack(descriptor, claim=claim, result=result, status=status).changed == 1
    found = backend.look(descriptor, include_result=True)
    assert (found.state, found.result, found.status) == (SUCCEEDED, result, status)


def test_a_job_that_returned_nothing_has_no_result(backend):
    descriptor = backend.finished()
    assert result_of(backend, descriptor) is None


def test_it_is_only_shown_to_who_asks_for_it(backend):
    descriptor, _ = backend.started()
    backend.ack(descriptor, result=b"kept")
    assert backend.look(descriptor).result is None
    [found] = backend.scan(SUCCEEDED).jobs
    assert found.result is None
    found = backend.look(descriptor, include_body=False, include_result=True)
    assert (found.body, found.result) == (None, b"kept")


@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS, FAILED])
def test_who_asks_for_the_result_of_a_job_without_gets_the_rest(backend, state):
    descriptor = backend.put_one() if state == PENDING else backend.started()[0]
    if state == FAILED:
        backend.fail(descriptor, is_final=True, result=b"of no success")
    assert backend.look(descriptor, include_result=True) == backend.look(descriptor)


def test_each_ack_of_a_call_has_its_own(backend):
    names = backend.put(*[new_job(priority=number % 3 + 1) for number in range(30)])
    backend.take()
    results = [None if number % 4 == 0 else b"%d" % number for number in range(30)]
    acks = [ack_of(name, result=result) for name, result in zip(names, results, strict=True)]
    assert backend.ack_dequeued_jobs(QUEUE, acks, []).changed == 30
    found = backend.lookup_jobs([*map(JobDescriptor.parse, names)], include_body=False, include_result=True)
    assert [one.result for one in found] == results


def test_the_first_of_two_acks_of_one_job_counts(backend):
    descriptor, claim = backend.started()
    acks = [ack_of(descriptor, claim=claim, result=result) for result in (b"first", b"second")]
    settled = backend.ack_dequeued_jobs(QUEUE, acks, [])
    assert (settled.changed, settled.stale, result_of(backend, descriptor)) == (1, 1, b"first")


def test_each_of_many_calls_at_once_has_its_own(backend):
    names = backend.put(*[new_job() for _ in range(20)])
    backend.take()
    results = [b"%d" % number if number % 3 else None for number in range(20)]

    def ack(name, result):
        return lambda: backend.backend.ack_dequeued_jobs(QUEUE, [ack_of(name, result=result)], [])

    settled = backend.together(*map(ack, names, results))
    assert [one.changed for one in settled] == [1] * 20
    assert [result_of(backend, name) for name in names] == results


def test_a_stale_ack_leaves_none(backend):
    descriptor, claim = backend.started(lease_ms=10)
    backend.clock.advance(10)
    backend.reap()
    later = backend.claim()
    backend.dequeue_jobs(QUEUE, 1, later)
    assert backend.ack(descriptor, claim=claim, result=b"too late").stale == 1
    assert backend.look(descriptor, include_result=True).result is None
    backend.ack(descriptor, claim=later.descriptor, result=b"in time")
    assert backend.ack(descriptor, claim=later.descriptor, result=b"again").stale == 1
    assert result_of(backend, descriptor) == b"in time"


def test_it_survives_a_crash(backend):
    descriptor, _ = backend.started()
    backend.ack(descriptor, result=b"\0kept")
    backend.crash()
    assert result_of(backend, descriptor) == b"\0kept"


def test_it_is_imported(backend):
    given = record(SUCCEEDED)._replace(result=b"\xffof another store")
    (descriptor,) = backend.import_jobs(QUEUE, [given])
    assert result_of(backend, descriptor) == given.result
