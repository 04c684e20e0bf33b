"""Schedule, by hand: PENDING -> PENDING and due at another time, all else as it was."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import FAILED
from tests.contract.test_idempotency import again, new_key
from tests.support.bench import QUEUE

HOUR_MS = 3_600_000


def schedule(backend, run_after_ms, *descriptors, queue=QUEUE, once=None):
    jobs = [JobDescriptor.parse(descriptor) for descriptor in descriptors]
    return backend.schedule_jobs(queue, jobs, run_after_ms, once=once)


def test_a_due_job_is_put_off_and_a_later_one_moved_forward(backend):
    due = backend.put_one(body=b"hello", attempts=5, status="why", unique_key="one")
    late = backend.put_one(run_after_ms=backend.clock.now_ms + 9 * HOUR_MS)
    before = backend.look(due)
    now = backend.clock.advance(1000)
    assert schedule(backend, now + HOUR_MS, due, late, due) == 2
    assert backend.look(due) == before._replace(run_after_ms=now + HOUR_MS, updated_at_ms=now)
    assert backend.take() == []
    backend.clock.advance(HOUR_MS)
    assert sorted(backend.take_names()) == sorted([due, late])


def test_a_job_that_waits_for_its_next_attempt_keeps_those_it_has_left(backend):
    descriptor, _ = backend.started(attempts=5)
    backend.fail(descriptor, retry_delay_ms=HOUR_MS)
    assert schedule(backend, backend.clock.now_ms, descriptor) == 1
    assert [job.attempts_remaining for job in backend.take()] == [4]


def test_jobs_that_run_or_have_ended_and_those_of_that_time_are_left_alone(backend):
    later = backend.clock.now_ms + HOUR_MS
    held, _ = backend.started()
    names = [held, backend.finished(state=FAILED), backend.finished(), backend.put_one(run_after_ms=later)]
    before = [backend.look(name) for name in names]
    backend.clock.advance(1000)
    assert schedule(backend, later, *names) == 0
    assert [backend.look(name) for name in names] == before


def test_a_unique_key_stays_taken(backend):
    descriptor = backend.put_one(unique_key="one")
    assert schedule(backend, backend.clock.now_ms + 1000 * HOUR_MS, descriptor) == 1
    assert backend.put_one(unique_key="one") == descriptor


def test_a_job_that_is_put_off_lets_the_next_of_its_key_through(backend):
    key = JobKey("ada", 1)
    first, second = backend.put_one(key=key), backend.put_one(key=key)
    later = backend.clock.now_ms + HOUR_MS
    assert schedule(backend, later, first) == 1
    assert backend.take_names() == [second]
    backend.ack(second)
    assert backend.take() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [first]


def test_one_that_waits_for_its_key_goes_on_waiting(backend):
    key = JobKey("ada", 1)
    first, second = backend.put_one(key=key), backend.put_one(key=key)
    assert backend.take_names() == [first]
    assert schedule(backend, backend.clock.now_ms + HOUR_MS, second) == 1
    backend.ack(first)
    assert backend.take() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [second]


def test_one_that_waits_for_an_ordered_key_keeps_its_place(backend):
    key = JobKey("ada", 1, is_ordered=True)
    first, second = backend.put_one(key=key), backend.put_one(key=key)
    assert backend.take_names() == [first]
    assert schedule(backend, backend.clock.now_ms + HOUR_MS, second) == 0
    backend.ack(first)
    assert backend.take_names() == [second]


def test_these_that_are_not_there(backend):
    descriptor = backend.put_one()
    backend.create_queue("thumbnails")
    later = backend.clock.now_ms + HOUR_MS
    assert schedule(backend, later, descriptor.replace(":p1:", ":p2:")) == 0
    assert schedule(backend, later, descriptor, queue="thumbnails") == 0
    assert schedule(backend, later) == 0
    assert backend.take_names() == [descriptor]
    with pytest.raises(QueueNotFound):
        schedule(backend, later, queue="nowhere")


def test_a_repeat_finds_the_first(backend):
    descriptor, key = backend.put_one(), new_key()
    later = backend.clock.now_ms + HOUR_MS
    assert schedule(backend, later, descriptor, once=key) == 1
    assert schedule(backend, backend.clock.now_ms, descriptor) == 1
    assert schedule(backend, later, descriptor, once=again(key)) == 1
    assert backend.take_names() == [descriptor], "the call that came in between counts"


def test_it_survives_a_crash(backend):
    descriptor = backend.put_one()
    later = backend.clock.now_ms + HOUR_MS
    schedule(backend, later, descriptor)
    backend.crash()
    assert backend.take() == []
    assert backend.look(descriptor).run_after_ms == later
