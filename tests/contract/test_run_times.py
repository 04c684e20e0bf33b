"""Run times: how long an attempt ran is kept with its success, where the ack says it."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, PENDING, SUCCEEDED
from tests.support.bench import QUEUE, ack_of, new_job


def run_times(backend, names):
    return [one.run_ms for one in backend.lookup_jobs([*map(JobDescriptor.parse, names)], include_body=False)]


@pytest.mark.parametrize("status", ["", "done;"])
@pytest.mark.parametrize("result", [None, b"kept"])
def test_it_is_kept_with_the_success(backend, result, status):
    descriptor, claim = backend.started()
    acks = [ack_of(descriptor, run_ms=81_234, claim=claim, result=result, status=status)]
    assert backend.ack_dequeued_jobs(QUEUE, acks, []).changed == 1
    found = backend.look(descriptor, include_result=True)
    assert (found.state, found.run_ms, found.result, found.status) == (SUCCEEDED, 81_234, result, status)
    [scanned] = backend.scan(SUCCEEDED).jobs
    assert scanned.run_ms == 81_234


def test_a_job_that_was_short_has_none(backend):
    descriptor = backend.finished()
    assert backend.look(descriptor).run_ms is None


def test_each_ack_of_a_call_has_its_own(backend):
    names = backend.put(*[new_job(priority=number % 3 + 1) for number in range(30)])
    backend.take()
    times = [None if number % 4 == 0 else 10**number % 2**52 + 1 for number in range(30)]
    acks = [ack_of(name, run_ms=run_ms) for name, run_ms in zip(names, times, strict=True)]
    assert backend.ack_dequeued_jobs(QUEUE, acks, []).changed == 30
    assert run_times(backend, names) == times


def test_each_of_many_calls_at_once_has_its_own(backend):
    names = backend.put(*[new_job() for _ in range(20)])
    backend.take()
    calls = [
        lambda name=name, number=number: backend.backend.ack_dequeued_jobs(
            QUEUE, [ack_of(name, run_ms=number + 100)], []
        )
        for number, name in enumerate(names)
    ]
    assert {settled.changed for settled in backend.together(*calls)} == {1}
    assert run_times(backend, names) == [number + 100 for number in range(20)]


def test_a_stale_ack_changes_none(backend):
    descriptor, claim = backend.started()
    other = ack_of(descriptor, run_ms=70_000, claim=claim + "0")
    assert backend.ack_dequeued_jobs(QUEUE, [other], []).changed == 0
    backend.clock.advance(1)
    assert backend.ack_dequeued_jobs(QUEUE, [ack_of(descriptor, run_ms=60_000, claim=claim), other], []).changed == 1
    assert backend.look(descriptor).run_ms == 60_000
    backend.clock.advance(1)
    backend.ack_dequeued_jobs(QUEUE, [ack_of(descriptor, run_ms=90_000, claim=claim)], [])
    assert backend.look(descriptor).run_ms == 60_000


def test_failures_have_none(backend):
    descriptor, _ = backend.started()
    backend.ack_dequeued_jobs(QUEUE, [], [ack_of(descriptor, run_ms=60_000)])
    assert (backend.look(descriptor).state, backend.look(descriptor).run_ms) == (PENDING, None)
    [other] = backend.put(new_job(attempts=1))
    backend.take()
    backend.ack_dequeued_jobs(QUEUE, [], [ack_of(other, run_ms=60_000)])
    assert (backend.look(other).state, backend.look(other).run_ms) == (FAILED, None)


def test_it_survives_a_crash(backend):
    descriptor, claim = backend.started()
    backend.ack_dequeued_jobs(QUEUE, [ack_of(descriptor, run_ms=60_000, claim=claim)], [])
    backend.crash()
    assert backend.look(descriptor).run_ms == 60_000
