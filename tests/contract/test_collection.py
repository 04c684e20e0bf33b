"""Collection: finished jobs go after their time, counted from their finish."""

from pinlater.protocol.messages import FAILED, SUCCEEDED
from tests.support.bench import LEASE_MS, QUEUE, new_job

DAY_MS = 86_400_000


def _collect(backend, succeeded_ttl_ms=DAY_MS, failed_ttl_ms=DAY_MS, limit=1000):
    """Return (succeeded, failed) by queue."""
    found = backend.collect_finished(succeeded_ttl_ms, failed_ttl_ms, limit)
    return {collected.queue: (collected.succeeded, collected.failed) for collected in found}


def test_succeeded_and_failed_have_times_of_their_own(backend):
    names = backend.put(*[new_job(attempts=1) for _ in range(100)])
    backend.take()
    backend.ack(*names[:50])
    backend.fail(*names[50:])
    backend.clock.advance(10)
    assert _collect(backend, 1, DAY_MS) == {QUEUE: (50, 0)}
    assert backend.counts() == (0, 0, 0, 50)
    assert _collect(backend, DAY_MS, 1) == {QUEUE: (0, 50)}
    assert backend.counts() == (0, 0, 0, 0)
    assert {backend.look(name) for name in names} == {None}
    assert _collect(backend, 1, 1) == {}


def test_the_time_counts_from_the_finish_not_from_run_after(backend):
    descriptor = backend.put_one(run_after_ms=1)
    backend.clock.advance(10 * DAY_MS)
    backend.take()
    backend.ack(descriptor)
    backend.clock.advance(DAY_MS)
    assert _collect(backend) == {}
    backend.clock.advance(1)
    assert _collect(backend) == {QUEUE: (1, 0)}


def test_the_time_counts_from_the_expiry_that_ended_the_job(backend):
    backend.started(attempts=1)
    backend.clock.advance(10 * DAY_MS)
    backend.reap()
    backend.clock.advance(DAY_MS)
    assert _collect(backend) == {}
    backend.clock.advance(1)
    assert _collect(backend) == {QUEUE: (0, 1)}


def test_a_late_ack_does_not_lengthen_the_time(backend):
    descriptor = backend.finished()
    backend.clock.advance(DAY_MS)
    backend.ack(descriptor)
    backend.checkpoint(descriptor)
    backend.clock.advance(1)
    assert _collect(backend) == {QUEUE: (1, 0)}


def test_jobs_that_are_not_finished_stay(backend):
    backend.started()
    backend.put_one()
    backend.put_one(run_after_ms=backend.clock.now_ms + 100 * DAY_MS)
    backend.clock.advance(10 * DAY_MS)
    assert _collect(backend, 0, 0) == {}
    assert backend.counts() == (2, 1, 0, 0)


def test_small_batches_the_oldest_first(backend):
    names = []
    for _ in range(5):
        names.append(backend.finished())
        backend.clock.advance(10)
    backend.clock.advance(DAY_MS)
    assert _collect(backend, limit=2) == {QUEUE: (2, 0)}
    assert [backend.look(name) is None for name in names] == [True, True, False, False, False]
    assert _collect(backend, limit=2) == {QUEUE: (2, 0)}
    assert _collect(backend, limit=2) == {QUEUE: (1, 0)}
    assert _collect(backend, limit=2) == {}


def test_each_queue_is_counted_by_itself(backend):
    backend.create_queue("thumbnails")
    backend.finished()
    backend.finished(state=FAILED)
    descriptor = backend.put_one(queue="thumbnails")
    backend.take(queue="thumbnails")
    backend.ack(descriptor, queue="thumbnails")
    backend.clock.advance(10)
    assert _collect(backend, 1, 1) == {QUEUE: (1, 1), "thumbnails": (1, 0)}


def test_a_retried_job_is_not_collected(backend):
    descriptor = backend.finished(state=FAILED)
    backend.clock.advance(10 * DAY_MS)
    backend.retry()
    assert _collect(backend) == {}
    backend.take()
    backend.ack(descriptor)
    assert _collect(backend) == {}
    assert backend.state(descriptor) == SUCCEEDED


def test_an_ack_after_collection_hits_no_other_job(backend):
    descriptor, claim = backend.started()
    backend.ack(descriptor)
    backend.clock.advance(10)
    _collect(backend, 1, 1)
    backend.reopen()
    fresh = backend.put_one()
    backend.take()
    assert fresh != descriptor
    assert backend.ack(descriptor, claim=claim).changed == 0
    assert backend.fail(descriptor).changed == 0
    assert backend.counts() == (0, 1, 0, 0)


def test_collection_and_expiry_after_a_crash(backend):
    backend.finished()
    backend.started(attempts=1)
    backend.crash()
    backend.clock.advance(LEASE_MS)
    assert backend.reap() == [(QUEUE, 0, 1)]
    backend.clock.advance(10)
    assert _collect(backend, 1, 1) == {QUEUE: (1, 1)}
