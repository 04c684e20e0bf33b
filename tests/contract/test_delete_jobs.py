"""Deletion by hand: jobs of one state and priority, with or without a pattern."""

import asyncio

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import JobFilter
from tests.support.bench import QUEUE, STATES, new_job


def _one_in_each_state(backend):
    return {
        FAILED: backend.finished(state=FAILED),
        SUCCEEDED: backend.finished(state=SUCCEEDED),
        IN_PROGRESS: backend.started()[0],
        PENDING: backend.put_one(),
    }


@pytest.mark.parametrize("state", STATES)
def test_one_state_goes_the_others_stay(backend, state):
    names = _one_in_each_state(backend)
    assert backend.delete(state) == 1
    assert [wanted for wanted, name in names.items() if backend.look(name) is None] == [state]
    assert backend.delete(state) == 0


def test_half_of_the_failed(backend):
    names = backend.put(*[new_job(attempts=1, priority=2) for _ in range(10)])
    backend.take()
    backend.fail(*names)
    assert backend.delete(FAILED) == 0  # of priority 1
    assert backend.delete(FAILED, priority=2, limit=5) == 5
    assert backend.counts() == (0, 0, 0, 5)


def test_future_jobs_go_too(backend):
    backend.put(new_job(run_after_ms=backend.clock.now_ms + 10**9), new_job(run_after_ms=2**63 - 1), new_job())
    assert backend.delete() == 3
    assert backend.counts() == (0, 0, 0, 0)


def test_by_pattern(backend):
    names = backend.put(*[new_job(f"pending_{n}".encode()) for n in range(10)])
    assert backend.delete(body_regex=".*pending_1.*") == 1
    assert [backend.look(name) is None for name in names] == [n == 1 for n in range(10)]
    assert backend.delete(body_regex="pending_[2-5]", limit=3) == 3
    assert backend.count() == 6


@pytest.mark.parametrize("pattern", ["' OR '1'='1", "x' OR 1=1; --", "%", "_"])
def test_a_pattern_never_becomes_part_of_a_query(backend, pattern):
    backend.put(*[new_job(b"body") for _ in range(5)])
    assert backend.delete(body_regex=pattern) == 0
    assert backend.count() == 5


def test_nothing_is_wanted(backend):
    _one_in_each_state(backend)
    for state in STATES:
        assert backend.delete(state, limit=0) == 0
    assert backend.counts() == (1, 1, 1, 1)


def test_more_than_one_page(backend):
    backend.put(*[new_job() for _ in range(1200)])
    assert backend.delete(limit=1100) == 1100
    assert len(backend.take(200)) == 100


@pytest.mark.parametrize("pattern", [None, "body"])
def test_deletions_at_once_each_get_their_own(backend, pattern):
    backend.put(*[new_job() for _ in range(180)])
    which = JobFilter(PENDING, 1, body_regex=pattern)
    assert backend.together(*[lambda: backend.backend.delete_jobs(QUEUE, which, 30)] * 6) == [30] * 6


def test_less_than_the_limit_means_that_there_are_no_more(backend):
    backend.put(*[new_job() for _ in range(90)])
    deleted = backend.together(*[lambda: backend.backend.delete_jobs(QUEUE, JobFilter(PENDING, 1), 40)] * 6)
    assert sum(deleted) == 90
    assert backend.counts() == (0, 0, 0, 0)


def test_others_have_their_turn_in_a_large_deletion(backend):
    names = backend.put(*[new_job() for _ in range(6000)])
    jobs = [JobDescriptor.parse(name) for name in names[::60]]

    async def watch():
        deletion = asyncio.ensure_future(backend.backend.delete_jobs(QUEUE, JobFilter(PENDING, 1), 2**31 - 1))
        seen = set()
        while not deletion.done():
            seen.add(sum(map(bool, await backend.backend.lookup_jobs(jobs))))
        return await deletion, seen

    deleted, seen = backend.run(watch())
    assert deleted == 6000
    assert seen - {0, len(jobs)}, "somebody saw it half done"


def test_other_queues_are_left_alone(backend):
    backend.create_queue("thumbnails")
    backend.put_one(queue="thumbnails")
    assert backend.delete(queue=QUEUE) == 0
    assert backend.count(queue="thumbnails") == 1


def test_a_job_deleted_under_its_worker(backend):
    descriptor, claim = backend.started()
    assert backend.delete(IN_PROGRESS) == 1
    assert backend.checkpoint(descriptor, claim=claim).stale == 1
    assert backend.ack(descriptor, claim=claim).stale == 1
    backend.clock.advance(10**9)
    assert backend.reap() == []
    assert backend.counts() == (0, 0, 0, 0)


def test_a_claim_and_a_deletion_at_once_never_delete_the_claimed_job(backend):
    """Whichever comes first: either the job is gone and nobody has it, or somebody has it and it is there."""
    store = backend.backend
    for _ in range(20):
        descriptor = backend.put_one()
        deleted, dequeued = backend.together(
            lambda: store.delete_jobs(QUEUE, JobFilter(PENDING, 1), 10),
            lambda: store.dequeue_jobs(QUEUE, 1, backend.claim()),
        )
        assert deleted + len(dequeued.jobs) == 1
        assert (backend.look(descriptor) is None) == bool(deleted)
        backend.delete(IN_PROGRESS)


def test_a_deletion_survives_a_crash(backend):
    backend.put_one()
    backend.delete()
    backend.crash()
    assert backend.counts() == (0, 0, 0, 0)


def test_just_these(backend):
    another = backend.finished(state=FAILED)
    names = _one_in_each_state(backend)
    jobs = [JobDescriptor.parse(name) for name in names.values()]
    for state, name in names.items():
        assert backend.delete_these_jobs(QUEUE, jobs, state) == 1
        assert backend.look(name) is None
        assert backend.delete_these_jobs(QUEUE, jobs, state) == 0
    assert backend.state(another) == FAILED
    assert backend.delete_these_jobs(QUEUE, [], FAILED) == 0


def test_one_that_is_named_twice(backend):
    descriptor = backend.put_one()
    assert backend.send(descriptor), "what it has of its own goes with it"
    assert backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(descriptor)] * 2, PENDING) == 1
    assert (backend.state(descriptor), backend.read(descriptor)) == (None, [])


def test_these_that_are_not_there(backend):
    descriptor = backend.put_one()
    backend.create_queue("thumbnails")
    jobs = [JobDescriptor.parse(descriptor)]
    assert backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(descriptor.replace(":p1:", ":p2:"))], PENDING) == 0
    assert backend.delete_these_jobs("thumbnails", jobs, PENDING) == 0
    assert backend.state(descriptor) == PENDING
    with pytest.raises(QueueNotFound):
        backend.delete_these_jobs("nowhere", jobs, PENDING)
