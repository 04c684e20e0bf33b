"""Retry by hand: FAILED -> PENDING with new attempts, the oldest first."""

import asyncio

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, PENDING, SUCCEEDED
from tests.support.bench import QUEUE, new_job


def _failed(backend, count, **options):
    names = backend.put(*[new_job(**options) for _ in range(count)])
    backend.take(count)
    backend.fail(*names, is_final=True)
    return names


def test_a_retried_job_has_new_attempts_but_keeps_attempts_allowed(backend):
    descriptor = backend.finished(state=FAILED, body=b"hello", attempts=2, status="why")
    before = backend.look(descriptor)
    now = backend.clock.advance(1000)
    assert backend.retry(attempts=5) == 1
    assert backend.look(descriptor) == before._replace(
        state=PENDING, attempts_remaining=5, run_after_ms=now, updated_at_ms=now
    )  # the claim stays, to tell who failed
    assert backend.take_names() == [descriptor]


def test_twenty_failed_jobs_of_another_priority(backend):
    names = _failed(backend, 20, priority=2, attempts=1)
    assert backend.retry() == 0
    later = backend.clock.now_ms + 1000
    assert backend.retry(priority=2, attempts=2, run_after_ms=later, limit=15) == 15
    assert backend.counts() == (15, 0, 0, 5)
    assert backend.take() == []
    backend.clock.advance(1000)
    for left in (15, 15, 0):
        taken = backend.take_names()
        assert len(taken) == left
        backend.fail(*taken)
    assert backend.counts() == (0, 0, 0, 20)
    assert {backend.look(name).attempts_remaining for name in names} == {0}


def test_the_oldest_go_first(backend):
    names = []
    for _ in range(6):
        names += _failed(backend, 1)
        backend.clock.advance(10)
    assert backend.retry(limit=2) == 2
    assert [backend.state(name) for name in names] == [PENDING] * 2 + [FAILED] * 4


def test_only_failed_jobs_move(backend):
    backend.finished(state=SUCCEEDED)
    backend.started()
    backend.put_one()
    assert backend.retry() == 0
    assert backend.counts() == (1, 1, 1, 0)


def test_nothing_is_wanted(backend):
    _failed(backend, 3)
    assert backend.retry(limit=0) == 0
    assert backend.counts() == (0, 0, 0, 3)


@pytest.mark.parametrize("attempts", [0, -3])
def test_a_retry_with_no_attempts_still_gets_one(backend, attempts):
    (descriptor,) = _failed(backend, 1)
    backend.retry(attempts=attempts)
    backend.take()
    backend.fail(descriptor)
    assert backend.state(descriptor) == FAILED


def test_other_queues_are_left_alone(backend):
    backend.create_queue("thumbnails")
    _failed(backend, 1)
    assert backend.retry(queue="thumbnails") == 0
    assert backend.counts() == (0, 0, 0, 1)


def test_an_old_claim_is_worth_nothing_after_a_retry(backend):
    descriptor, old = backend.started(attempts=1)
    backend.fail(descriptor)
    backend.retry()
    backend.take()
    assert backend.ack(descriptor, claim=old).stale == 1
    assert backend.checkpoint(descriptor, claim=old).stale == 1


def test_a_retried_job_does_not_expire_before_it_is_claimed(backend):
    (descriptor,) = _failed(backend, 1)
    backend.retry()
    backend.clock.advance(10**9)
    assert backend.reap() == []
    assert backend.collect_finished(1, 1, 100) == []
    assert backend.take_names(queue=QUEUE) == [descriptor]


def these(backend, *descriptors, attempts=1, run_after_ms=None):
    jobs = [JobDescriptor.parse(descriptor) for descriptor in descriptors]
    return backend.retry_these_jobs(QUEUE, jobs, attempts, run_after_ms)


def test_just_these(backend):
    wanted = [*_failed(backend, 2), *_failed(backend, 1, priority=2)]
    others = _failed(backend, 2)
    done = backend.finished(state=SUCCEEDED)
    held, _ = backend.started()
    later = backend.clock.now_ms + 1000
    assert these(backend, *wanted, done, held, attempts=4, run_after_ms=later) == 3
    assert {(one.state, one.attempts_remaining, one.run_after_ms) for one in map(backend.look, wanted)} == {
        (PENDING, 4, later)
    }
    assert {backend.state(name) for name in others} == {FAILED}
    assert backend.counts() == (3, 1, 1, 2)
    assert these(backend, *wanted) == 0
    assert these(backend) == 0


def test_these_that_are_not_there(backend):
    (descriptor,) = _failed(backend, 1)
    backend.create_queue("thumbnails")
    another_priority = descriptor.replace(":p1:", ":p2:")
    assert these(backend, another_priority) == 0
    assert backend.retry_these_jobs("thumbnails", [JobDescriptor.parse(descriptor)], 1, None) == 0
    backend.delete(FAILED)
    assert these(backend, descriptor) == 0
    with pytest.raises(QueueNotFound):
        backend.retry_these_jobs("nowhere", [], 1, None)


def test_retries_at_once_each_get_their_own(backend):
    _failed(backend, 180)
    retry = [lambda: backend.backend.retry_failed_jobs(QUEUE, 1, 1, None, 30)] * 6
    assert backend.together(*retry) == [30] * 6
    assert backend.together(*retry) == [0] * 6


def test_others_have_their_turn_in_a_large_retry(backend):
    _failed(backend, 5000)

    async def watch():
        retry = asyncio.ensure_future(backend.backend.retry_failed_jobs(QUEUE, 1, 1, None, 2**31 - 1))
        turns = 0
        while not retry.done():
            await backend.backend.enqueue_jobs(QUEUE, [new_job()])
            turns += 1
        return await retry, turns

    moved, turns = backend.run(watch())
    assert moved == 5000
    assert turns > 2, "in one transaction, there would be one before it and one after it"
