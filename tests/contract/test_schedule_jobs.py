"""Schedule, by hand: PENDING -> PENDING and due at another time, or now; all else as it was."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from tests.contract.test_idempotency import again, new_key
from tests.support.bench import QUEUE

HOUR_MS = 3_600_000


def schedule(backend, run_after_ms, *descriptors, queue=QUEUE, once=None):
    jobs = [JobDescriptor.parse(descriptor) for descriptor in descriptors]
    return backend.schedule_jobs(queue, jobs, run_after_ms, once=once)


def run_now(backend, *descriptors, **options):
    return schedule(backend, None, *descriptors, **options)


def put_late(backend, **options):
    return backend.put_one(run_after_ms=backend.clock.now_ms + HOUR_MS, **options)


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


@pytest.mark.parametrize("is_now", [True, False])
def test_a_job_that_waits_for_its_next_attempt_keeps_those_it_has_left(backend, is_now):
    descriptor, _ = backend.started(attempts=5)
    backend.fail(descriptor, retry_delay_ms=HOUR_MS)
    assert schedule(backend, None if is_now else backend.clock.now_ms, descriptor) == 1
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


# Now


def test_a_job_for_later_is_due_now_and_else_as_it_was(backend):
    descriptor = put_late(backend, body=b"hello", attempts=5, status="why", unique_key="one")
    assert backend.take() == []
    before = backend.look(descriptor)
    now = backend.clock.advance(1000)
    assert run_now(backend, descriptor) == 1
    assert backend.look(descriptor) == before._replace(run_after_ms=now, updated_at_ms=now)
    [job] = backend.take()
    assert (job.descriptor, job.attempts_remaining, job.run_after_ms) == (descriptor, 5, now)


def test_a_job_that_was_given_back_for_later(backend):
    descriptor, claim = backend.started()
    later = backend.clock.now_ms + HOUR_MS
    backend.checkpoint(descriptor, claim=claim, body=b"asleep", move_to_pending=True, run_after_ms=later)
    assert run_now(backend, descriptor) == 1
    assert [job.body for job in backend.take()] == [b"asleep"]


def test_jobs_that_are_due_run_or_have_ended_are_left_alone(backend):
    held, _ = backend.started()
    failed = backend.finished(state=FAILED)
    succeeded = backend.finished()
    due = backend.put_one()
    names = [held, failed, succeeded, due]
    before = [backend.look(name) for name in names]
    backend.clock.advance(1000)
    assert run_now(backend, *names) == 0
    assert [backend.look(name) for name in names] == before


def test_just_these_of_any_priority_each_once(backend):
    wanted = [put_late(backend), put_late(backend, priority=2)]
    other = put_late(backend)
    assert run_now(backend, *wanted, wanted[0]) == 2
    assert sorted(backend.take_names()) == sorted(wanted)
    assert backend.state(other) == PENDING
    assert {backend.state(name) for name in wanted} == {IN_PROGRESS}


def test_it_stands_behind_jobs_that_were_due_before(backend):
    late = put_late(backend)
    early = backend.put_one()
    backend.clock.advance(1000)
    run_now(backend, late)
    backend.clock.advance(1000)
    assert backend.take_names() == [early, late]


def test_a_repeat_finds_that_they_were_run_now(backend):
    descriptor = put_late(backend)
    key = new_key()
    assert run_now(backend, descriptor, once=key) == 1
    backend.take()
    backend.fail(descriptor, retry_delay_ms=HOUR_MS)
    assert run_now(backend, descriptor, once=again(key)) == 1
    assert backend.take() == [], "it waits for its next attempt, of which the first call knew nothing"
