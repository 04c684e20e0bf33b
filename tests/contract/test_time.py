"""Times: milliseconds by the store's own clock, which alone says what is due."""

from pinlater.protocol.messages import IN_PROGRESS, SUCCEEDED
from tests.support.bench import LEASE_MS, START_MS, new_job


def test_every_millisecond_is_kept(backend):
    descriptor = backend.put_one(attempts=3)
    moments = []
    for act in (
        backend.take,
        lambda: backend.checkpoint(descriptor),
        lambda: backend.fail(descriptor),
        backend.take,
        lambda: backend.ack(descriptor),
    ):
        backend.clock.advance(1)
        act()
        moments.append(backend.look(descriptor).updated_at_ms)
    assert moments == [START_MS + n for n in range(1, 6)]
    assert backend.look(descriptor).created_at_ms == START_MS


def test_jobs_one_millisecond_apart_stay_apart(backend):
    names = backend.put(*[new_job(run_after_ms=START_MS + n) for n in (3, 1, 2)])
    taken = []
    for _ in range(3):
        backend.clock.advance(1)
        taken += backend.take_names()
    assert taken == [names[1], names[2], names[0]]


def test_a_clock_that_was_set_back_loses_nothing(backend):
    backend.clock.advance(30_000)
    claimed, claim = backend.started()
    waiting = backend.put_one()
    backend.clock.advance(-30_000)
    new = backend.put_one()
    assert backend.take_names() == [new]
    assert backend.ack(claimed, claim=claim).changed == 1
    assert backend.reap() == []
    backend.clock.advance(30_000)
    assert backend.take_names() == [waiting]
    assert (backend.state(claimed), backend.state(waiting)) == (SUCCEEDED, IN_PROGRESS)


def test_a_clock_at_the_epoch_works(backend):
    backend.clock.now_ms = 0
    descriptor, _ = backend.started(attempts=2)
    backend.clock.advance(LEASE_MS)
    backend.reap()
    assert backend.take_names() == [descriptor]
    assert backend.ack(descriptor).changed == 1
