"""Unique keys that stay taken for a time: at most one job of a key in that time."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord
from pinlater.model.unique import UniqueRule
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import IdempotencyKey
from tests.support.bench import QUEUE, START_MS, new_job
from tests.support.stores import HOMES

MINUTE = UniqueRule(period_ms=60_000)
BOTH = UniqueRule(until_started=True, period_ms=60_000)


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


def put(backend, key="a", rule=MINUTE, **options):
    return backend.put_one(unique_key=key, rule=rule, **options)


@pytest.mark.parametrize("rule", [None, MINUTE, BOTH], ids=["none", "period", "both"])
def test_the_key_stays_taken_when_the_job_has_finished(backend, rule):
    first = put(backend)
    backend.take()
    assert put(backend, rule=rule) == first
    backend.ack(first)
    assert put(backend, rule=rule) == first
    backend.clock.advance(59_999)
    assert put(backend, rule=rule) == first
    backend.clock.advance(1)
    second = put(backend, rule=rule)
    assert second != first
    assert put(backend, rule=rule) == second
    assert backend.counts() == (1, 0, 1, 0)


def test_a_job_that_has_not_finished_keeps_its_key_after_the_period(backend):
    first = put(backend)
    backend.clock.advance(60_000)
    assert put(backend) == first
    backend.take()
    assert put(backend) == first
    assert put(backend, rule=BOTH) != first, "its period is over, and it has started"


def test_one_job_of_each_period_starts_however_long_they_run(backend):
    names = [put(backend, rule=BOTH)]
    for _ in range(3):
        backend.take()
        backend.clock.advance(59_999)
        assert put(backend, rule=BOTH) == names[-1]
        backend.clock.advance(1)
        names.append(put(backend, rule=BOTH))
    assert len({*names}) == 4
    assert backend.counts() == (1, 3, 0, 0)


def test_a_period_begins_with_the_job_and_not_with_its_duplicates(backend):
    first = put(backend)
    backend.clock.advance(40_000)
    assert put(backend) == first
    backend.ack(*backend.take_names())
    backend.clock.advance(20_000)
    assert put(backend) != first


def test_the_end_of_a_failed_job_does_not_end_the_period(backend):
    first = put(backend, attempts=1)
    backend.take()
    backend.fail(first)
    assert put(backend) == first
    assert backend.retry() == 1
    assert put(backend) == first
    assert backend.counts() == (1, 0, 0, 0)


def test_the_period_outlives_the_record_of_the_job(backend):
    first = put(backend)
    backend.take()
    backend.ack(first)
    backend.clock.advance(1000)
    assert [item.succeeded for item in backend.collect_finished(10, 10, 100)] == [1]
    assert put(backend) == first
    backend.clock.advance(59_000)
    assert put(backend) != first


def test_deleting_finished_jobs_does_not_end_the_period(backend):
    first = put(backend)
    backend.take()
    backend.ack(first)
    assert backend.delete(SUCCEEDED) == 1
    assert put(backend) == first


DELETIONS = {
    "by filter": lambda backend, _, state: backend.delete(state),
    "by name": lambda backend, name, state: backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(name)], state),
}


@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS], ids=["pending", "in progress"])
@pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
def test_a_job_that_is_deleted_before_it_finishes_leaves_its_key(backend, delete, state):
    other, first = put(backend, "other"), put(backend)
    if state == IN_PROGRESS:
        backend.take()
    assert delete(backend, first, state) >= 1
    second = put(backend)
    assert second != first
    assert put(backend) == second
    if delete is DELETIONS["by name"]:
        assert put(backend, "other") == other


def test_a_waiting_job_that_is_cancelled_leaves_its_key(backend):
    other, first = put(backend, "other"), put(backend)
    assert [str(job) for job in backend.cancel(first).ended] == [first]
    second = put(backend)
    assert second != first
    assert put(backend) == second
    assert put(backend, "other") == other
    backend.ack(*backend.take_names())
    assert put(backend) == second, "the period of the new job has begun"


def test_a_running_job_that_is_cancelled_leaves_its_key_when_it_ends(backend):
    first = put(backend)
    backend.take()
    assert [str(job) for job in backend.cancel(first).asked] == [first]
    assert put(backend) == first
    backend.fail(first, is_final=True, is_cancelled=True)
    assert put(backend) != first


def test_the_cancellation_of_a_finished_job_leaves_the_period(backend):
    first = put(backend)
    backend.take()
    backend.ack(first)
    backend.cancel(first)
    assert put(backend) == first


def test_a_deletion_in_the_wrong_state_leaves_the_period(backend):
    first = put(backend)
    backend.take()
    assert backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(first)], PENDING) == 0
    backend.ack(first)
    assert put(backend) == first


def test_each_queue_has_its_own_periods_and_a_new_queue_has_none(backend):
    backend.create_queue("thumbnails")
    first = put(backend)
    assert put(backend, queue="thumbnails").startswith("thumbnails:")
    backend.take()
    backend.ack(first)
    backend.delete_queue(QUEUE)
    backend.create_queue(QUEUE)
    assert put(backend) != first


def test_keys_within_one_call_count(backend):
    first, second, plain, other = backend.put(
        new_job(b"1", unique_key="a", rule=MINUTE, priority=2),
        new_job(b"2", unique_key="a"),
        new_job(b"3"),
        new_job(b"4", unique_key="b"),
    )
    assert first == second
    backend.ack(*backend.take_names())
    assert put(backend) == first
    assert put(backend, "b") not in {other, plain}


def test_calls_at_once_store_one_job_in_a_period(backend):
    answers = backend.together(
        *[lambda: backend.backend.enqueue_jobs(QUEUE, [new_job(unique_key="a", rule=MINUTE)]) for _ in range(20)]
    )
    assert len({name for (name,) in answers}) == 1
    assert backend.counts() == (1, 0, 0, 0)


def test_a_call_that_is_sent_again_after_the_period_stores_nothing(backend):
    once = IdempotencyKey(bytes(16), 10**6)
    jobs = [new_job(unique_key="a", rule=MINUTE), new_job(unique_key="b", rule=BOTH)]
    names = backend.enqueue_jobs(QUEUE, jobs, once=once)
    backend.ack(*backend.take_names())
    backend.clock.advance(60_001)
    assert backend.enqueue_jobs(QUEUE, jobs, once=once._replace(is_repeat=True)) == names
    assert backend.counts() == (0, 0, 2, 0)


def test_an_imported_job_meets_no_period(backend):
    first = put(backend)
    backend.take()
    backend.ack(first)
    record = JobRecord(first, PENDING, 2, 2, "", START_MS, START_MS, START_MS, None, b"moved", "a")
    [second] = backend.import_jobs(QUEUE, [record])
    assert second != first
    assert backend.look(second).body == b"moved"
    assert put(backend) == second
    assert backend.counts() == (1, 0, 1, 0)


@pytest.mark.parametrize("restart", ["reopen", "crash"])
def test_periods_outlive_the_server(backend, restart):
    first = put(backend)
    backend.take()
    backend.ack(first)
    getattr(backend, restart)()
    assert put(backend) == first


def test_periods_are_forgotten_in_bounded_steps(new_backend):
    backend = new_backend
    for key in "abcde":
        put(backend, key)
    put(backend, "f", rule=UniqueRule(period_ms=90_000))
    assert backend.forget_results(10) == 0
    backend.clock.advance(60_000)
    if backend.backend.capabilities.name == "redis":  # which ends them by itself
        return
    assert sum(backend.forget_results(2) for _ in range(4)) == 5
    backend.clock.advance(30_000)
    assert backend.forget_results(10) == 1


def test_failed_is_a_state_of_its_own(backend):
    first = put(backend)
    backend.take()
    backend.fail(first, is_final=True)
    assert backend.delete(FAILED) == 1
    assert put(backend) == first
