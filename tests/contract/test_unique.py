"""Unique keys: while a job with a key is not finished, there is no second one."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.support.bench import QUEUE, new_job


def put(backend, key, **options):
    return backend.put_one(unique_key=key, **options)


def test_a_second_job_with_the_key_is_not_stored(backend):
    first = put(backend, "report", body=b"first", priority=2)
    assert put(backend, "report", body=b"second", priority=1, run_after_ms=0) == first
    assert backend.counts() == (1, 0, 0, 0)
    assert (backend.look(first).body, backend.look(first).run_after_ms) == (b"first", backend.clock.now_ms)


def test_other_keys_and_none_are_others(backend):
    keys = ["report", "Report", "report ", "r\u00e9", "re\u0301", "报告", "r", "'\"%_\\", None, None]
    names = [put(backend, key) for key in keys]
    assert len(set(names)) == len(keys)
    again = [put(backend, key) for key in keys[:-2]]
    assert again == names[:-2]


def test_the_longest_key(backend):
    first = put(backend, "🐙" * 200)
    assert put(backend, "🐙" * 200) == first
    assert put(backend, "🐙" * 199 + "x") != first


def test_each_queue_has_its_own_keys(backend):
    backend.create_queue("thumbnails")
    first = put(backend, "report")
    assert put(backend, "report", queue="thumbnails").startswith("thumbnails:")
    assert put(backend, "report") == first


def test_keys_within_one_call_count(backend):
    first, second, third, fourth, fifth = backend.put(
        new_job(b"1", unique_key="a", priority=3),
        new_job(b"2"),
        new_job(b"3", unique_key="a"),
        new_job(b"4", unique_key="b"),
        new_job(b"5", unique_key="a"),
    )
    assert first == third == fifth
    assert [backend.look(name).body for name in (first, second, fourth)] == [b"1", b"2", b"4"]
    assert backend.counts() == (3, 0, 0, 0)


def test_calls_at_once_store_one_job(backend):
    calls = [lambda: backend.backend.enqueue_jobs(QUEUE, [new_job(unique_key="a"), new_job()]) for _ in range(20)]
    answers = backend.together(*calls)
    assert len({keyed for keyed, _ in answers}) == 1
    assert len({plain for _, plain in answers}) == 20
    assert backend.counts() == (21, 0, 0, 0)


def test_many_keys_in_one_call(backend):
    there = backend.put(*[new_job(unique_key=f"key {n}") for n in range(0, 1000, 3)])
    names = backend.put(*[new_job(unique_key=f"key {n}") for n in range(1000)])
    assert names[::3] == there
    assert len(set(names)) == 1000
    assert backend.take_names(2000) == sorted(names, key=lambda name: JobDescriptor.parse(name).local_id)


def _claim(backend, key):
    [name] = backend.take_names()
    assert put(backend, key) == name
    assert backend.state(name) == IN_PROGRESS
    return name


def test_a_job_in_progress_keeps_its_key(backend):
    name = put(backend, "a")
    _claim(backend, "a")
    assert backend.look(name).state == IN_PROGRESS


@pytest.mark.parametrize(
    ("finish", "state"),
    {
        "acked": (lambda backend, name: backend.ack(name), SUCCEEDED),
        "acked with a status": (lambda backend, name: backend.ack(name, status="done"), SUCCEEDED),
        "given up": (lambda backend, name: backend.fail(name, is_final=True), FAILED),
    }.values(),
    ids=["acked", "acked with a status", "given up"],
)
def test_a_finished_job_has_no_key(backend, finish, state):
    name = put(backend, "a")
    _claim(backend, "a")
    finish(backend, name)
    assert backend.state(name) == state
    assert put(backend, "a") != name
    assert backend.counts()[PENDING] == 1


def test_the_last_failure_forgets_the_key(backend):
    name = put(backend, "a", attempts=2)
    backend.take()
    backend.fail(name)
    assert put(backend, "a") == name, "an attempt remains"
    backend.take()
    backend.fail(name)
    assert backend.state(name) == FAILED
    assert put(backend, "a") != name


def test_the_last_expiry_forgets_the_key(backend):
    name = put(backend, "a", attempts=2)
    for expected in (PENDING, FAILED):
        backend.take(lease_ms=10)
        backend.clock.advance(20)
        backend.reap(quiet_ms=0)
        assert backend.state(name) == expected
        assert (put(backend, "a") == name) == (expected == PENDING)


def test_a_job_that_is_given_back_keeps_its_key(backend):
    name = put(backend, "a")
    backend.take(source="one")
    backend.release_claims(QUEUE, "one")
    assert put(backend, "a") == name
    backend.take(source="two")
    backend.checkpoint(name, source="two", body=b"new", move_to_pending=True, attempts=3, run_after_ms=0)
    assert put(backend, "a") == name
    assert backend.look(name).body == b"new"


def test_a_retried_job_does_not_meet_its_successor(backend):
    first = put(backend, "a")
    backend.take()
    backend.fail(first, is_final=True)
    second = put(backend, "a")
    assert backend.retry() == 1
    assert (backend.state(first), backend.state(second)) == (PENDING, PENDING)
    assert put(backend, "a") == second
    backend.ack(*backend.take_names())
    assert (backend.state(first), backend.state(second)) == (SUCCEEDED, SUCCEEDED)
    assert put(backend, "a") not in {first, second}


def test_a_deleted_job_has_no_key(backend):
    name = put(backend, "a")
    assert backend.delete() == 1
    assert put(backend, "a") != name


def test_a_queue_that_is_made_anew_knows_no_old_keys(backend):
    name = put(backend, "a")
    backend.delete_queue(QUEUE)
    backend.create_queue(QUEUE)
    assert put(backend, "a") != name
    assert backend.counts() == (1, 0, 0, 0)


@pytest.mark.parametrize("restart", ["reopen", "crash"])
def test_keys_outlive_the_server(backend, restart):
    name = put(backend, "a")
    getattr(backend, restart)()
    assert put(backend, "a") == name


def test_what_cannot_be_stored_takes_no_key(backend):
    with pytest.raises(Exception, match="nothing was changed"):
        backend.put(new_job(unique_key="a"), new_job(run_after_ms=2**80))
    name = put(backend, "a")
    assert backend.counts() == (1, 0, 0, 0)
    assert backend.take_names() == [name]
