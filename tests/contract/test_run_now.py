"""Run now, by hand: PENDING and not due -> due now, all else as it was."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from tests.contract.test_idempotency import again, new_key
from tests.support.bench import QUEUE

HOUR_MS = 3_600_000


def run_now(backend, *descriptors, queue=QUEUE, once=None):
    return backend.schedule_jobs(
        queue, [JobDescriptor.parse(descriptor) for descriptor in descriptors], None, once=once
    )


def put_late(backend, **options):
    return backend.put_one(run_after_ms=backend.clock.now_ms + HOUR_MS, **options)


def test_a_job_for_later_is_due_now_and_else_as_it_was(backend):
    descriptor = put_late(backend, body=b"hello", attempts=5, status="why", unique_key="one")
    assert backend.take() == []
    before = backend.look(descriptor)
    now = backend.clock.advance(1000)
    assert run_now(backend, descriptor) == 1
    assert backend.look(descriptor) == before._replace(run_after_ms=now, updated_at_ms=now)
    [job] = backend.take()
    assert (job.descriptor, job.attempts_remaining, job.run_after_ms) == (descriptor, 5, now)


def test_a_job_that_waits_for_its_next_attempt_keeps_those_it_has_left(backend):
    descriptor, _ = backend.started(attempts=5)
    backend.fail(descriptor, retry_delay_ms=HOUR_MS)
    assert run_now(backend, descriptor) == 1
    assert [job.attempts_remaining for job in backend.take()] == [4]


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


def test_these_that_are_not_there(backend):
    descriptor = put_late(backend)
    backend.create_queue("thumbnails")
    assert run_now(backend, descriptor.replace(":p1:", ":p2:")) == 0
    assert run_now(backend, descriptor, queue="thumbnails") == 0
    assert run_now(backend) == 0
    assert backend.take() == []
    backend.delete(PENDING)
    assert run_now(backend, descriptor) == 0
    with pytest.raises(QueueNotFound):
        run_now(backend, queue="nowhere")


def test_a_repeat_finds_the_first(backend):
    descriptor = put_late(backend)
    key = new_key()
    assert run_now(backend, descriptor, once=key) == 1
    backend.take()
    backend.fail(descriptor, retry_delay_ms=HOUR_MS)
    assert run_now(backend, descriptor, once=again(key)) == 1
    assert backend.take() == [], "it waits for its next attempt, of which the first call knew nothing"


def test_it_survives_a_crash(backend):
    descriptor = put_late(backend)
    run_now(backend, descriptor)
    backend.crash()
    assert backend.take_names() == [descriptor]
