"""Import: a job arrives in the state that it had in another store, with its history."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.failure_groups import failure_in
from pinlater.model.jobs import JobRecord
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.support.bench import QUEUE, START_MS, new_job


def record(state=PENDING, *, priority=1, claim=None, run_after_ms=START_MS - 500, body=b"body", key=None):
    return JobRecord(
        f"elsewhere:s7d1:p{priority}:42",
        state,
        attempts_allowed=5,
        attempts_remaining=3,
        status="what happened there",
        created_at_ms=START_MS - 1000,
        run_after_ms=run_after_ms,
        updated_at_ms=START_MS - 100,
        claim=claim,
        body=body,
        unique=key,
    )


@pytest.mark.parametrize("state", [PENDING, SUCCEEDED, FAILED])
@pytest.mark.parametrize("priority", [1, 3])
def test_everything_is_kept_but_the_address(backend, state, priority):
    given = record(state, priority=priority)
    (descriptor,) = backend.import_jobs(QUEUE, [given])
    assert descriptor.startswith(f"{QUEUE}:s")
    assert f":p{priority}:" in descriptor
    group = failure_in(given).group if state == FAILED else None
    assert backend.look(descriptor) == given._replace(descriptor=descriptor, failure_group=group)


def test_the_run_time_of_a_job_that_has_succeeded_is_kept(backend):
    given = [record(SUCCEEDED)._replace(run_ms=run_ms) for run_ms in (None, 61_000, 2**52)]
    given.append(record(FAILED)._replace(run_ms=61_000))
    found = [backend.look(name).run_ms for name in backend.import_jobs(QUEUE, given)]
    assert found == [None, 61_000, 2**52, None]
    names = backend.import_jobs(QUEUE, [record(SUCCEEDED)._replace(run_ms=70), record()])
    assert [backend.look(name).run_ms for name in names] == [70, None]


def test_a_claimed_job_is_pending_with_all_its_attempts(backend):
    (descriptor,) = backend.import_jobs(QUEUE, [record(IN_PROGRESS, claim="of another server")])
    assert backend.look(descriptor) == record()._replace(descriptor=descriptor)
    (job,) = backend.take()
    assert (job.descriptor, job.attempts_allowed, job.attempts_remaining) == (descriptor, 5, 3)


def test_imported_jobs_live_on(backend):
    due, later = backend.import_jobs(QUEUE, [record(), record(run_after_ms=START_MS + 1000)])
    assert backend.take_names() == [due]
    for remaining in (2, 1, 0):
        backend.fail(due)
        assert backend.look(due).attempts_remaining == remaining
        backend.take()
    assert backend.state(due) == FAILED
    assert backend.look(due).status.startswith("what happened there")
    backend.clock.advance(1000)
    assert backend.take_names() == [later]


def test_they_keep_their_order_among_the_others(backend):
    (native,) = backend.put(new_job(run_after_ms=START_MS - 200))
    names = backend.import_jobs(
        QUEUE, [record(run_after_ms=START_MS - at, body=b"%d" % at) for at in (100, 300, 200, 200)]
    )
    assert backend.take_names() == [names[1], native, names[2], names[3], names[0]]


def test_finished_ones_are_collected_by_their_own_time(backend):
    backend.import_jobs(QUEUE, [record(SUCCEEDED), record(FAILED)])
    assert backend.collect_finished(1000, 1000, 10) == []
    backend.clock.advance(950)
    assert [tuple(one) for one in backend.collect_finished(1000, 1000, 10)] == [(QUEUE, 1, 1)]


def test_a_unique_key_is_imported_and_heeded(backend):
    (there,) = backend.put(new_job(unique_key="there"))
    names = backend.import_jobs(
        QUEUE, [record(key="there"), record(key="new"), record(IN_PROGRESS, key="new"), record(FAILED, key="there")]
    )
    assert names[0] == there
    assert names[1] == names[2]
    assert backend.state(names[3]) == FAILED
    assert backend.counts() == (2, 0, 0, 1)
    assert backend.put(new_job(unique_key="new")) == [names[1]]
    assert [backend.look(name).unique for name in (there, names[1], names[3])] == ["there", "new", None]


def test_one_that_has_failed_runs_again_when_it_is_retried_though_its_key_is_the_first_of_the_queue(backend):
    (descriptor,) = backend.import_jobs(QUEUE, [record(FAILED)._replace(key=JobKey("a", 1))])
    assert backend.retry() == 1
    assert backend.take_names() == [descriptor]


def test_many_at_once(backend):
    names = backend.import_jobs(QUEUE, [record(body=b"%d" % number) for number in range(700)])
    assert len(set(names)) == 700
    assert [backend.look(names[at]).body for at in (0, 699)] == [b"0", b"699"]
    assert backend.import_jobs(QUEUE, []) == []


def test_into_no_queue(backend):
    with pytest.raises(QueueNotFound):
        backend.import_jobs("nowhere", [record()])


def test_an_import_survives_a_crash(backend):
    (descriptor,) = backend.import_jobs(QUEUE, [record(FAILED)])
    backend.crash()
    group = failure_in(record(FAILED)).group
    assert backend.look(descriptor) == record(FAILED)._replace(descriptor=descriptor, failure_group=group)
