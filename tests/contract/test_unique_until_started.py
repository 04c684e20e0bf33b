"""Unique keys until their jobs have started: a change during a run is not lost."""

import pytest

from pinlater.model.unique import UniqueRule
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import IdempotencyKey
from tests.support.bench import QUEUE, new_job
from tests.support.stores import HOMES

STARTED = UniqueRule(until_started=True)


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


def put(backend, key="a", rule=STARTED, **options):
    return backend.put_one(unique_key=key, rule=rule, **options)


def test_a_waiting_job_has_the_key(backend):
    first = put(backend, body=b"first")
    assert put(backend, body=b"second") == first
    assert put(backend, rule=None) == first
    assert backend.counts() == (1, 0, 0, 0)
    assert backend.look(first).body == b"first"


def test_a_job_in_progress_gives_up_its_key(backend):
    first = put(backend)
    backend.take()
    second = put(backend)
    assert second != first
    assert (backend.state(first), backend.state(second)) == (IN_PROGRESS, PENDING)
    assert (backend.look(first).unique, backend.look(second).unique) == (None, "a")
    assert put(backend) == put(backend, rule=None) == second


def test_the_rule_is_that_of_the_new_job(backend):
    first = put(backend)
    backend.take()
    assert put(backend, rule=None) == first, "one that is unique until it finishes meets the running job"
    assert put(backend) != first


@pytest.mark.parametrize("finish", ["ack", "fail"])
def test_the_end_of_the_started_job_does_not_free_the_key_of_the_next(backend, finish):
    first = put(backend, attempts=1)
    backend.take()
    second = put(backend)
    getattr(backend, finish)(first)
    assert backend.state(first) == (SUCCEEDED if finish == "ack" else FAILED)
    assert put(backend) == put(backend, rule=None) == second
    assert backend.counts()[PENDING] == 1


GIVEN_BACK = {
    "failed": lambda backend, name: backend.fail(name),
    "released": lambda backend, _: backend.release_claims(QUEUE, "worker"),
    "given back": lambda backend, name: backend.checkpoint(name, move_to_pending=True),
    "rescheduled": lambda backend, name: backend.checkpoint(name, move_to_pending=True, attempts=5),
    "expired": lambda backend, _: (backend.clock.advance(10**9), backend.reap(quiet_ms=0)),
}


@pytest.mark.parametrize("back", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_a_job_that_waits_for_its_next_attempt_has_started(backend, back):
    first = put(backend, attempts=3)
    backend.take()
    back(backend, first)
    assert backend.state(first) == PENDING
    second = put(backend)
    assert second != first
    assert put(backend) == second
    assert backend.counts() == (2, 0, 0, 0)
    assert sorted(backend.take_names()) == sorted([first, second])


def test_a_job_that_is_retried_by_hand_has_no_key(backend):
    first = put(backend, attempts=1)
    backend.take()
    backend.fail(first)
    second = put(backend)
    assert backend.retry() == 1
    assert put(backend) == second
    assert backend.counts() == (2, 0, 0, 0)


def test_a_job_that_was_deleted_has_no_key(backend):
    first = put(backend)
    assert backend.delete() == 1
    assert put(backend) != first


def test_keys_within_one_call_count(backend):
    running = put(backend)
    backend.take()
    kept, first, second, last = backend.put(
        new_job(unique_key="a"),
        new_job(b"1", unique_key="a", rule=STARTED),
        new_job(b"2", unique_key="a", rule=STARTED),
        new_job(b"3", unique_key="a"),
    )
    assert kept == running
    assert first == second == last != running
    assert backend.look(first).body == b"1"
    assert backend.counts() == (1, 1, 0, 0)


def test_calls_at_once_store_one_job(backend):
    first = put(backend)
    backend.take()
    answers = backend.together(
        *[lambda: backend.backend.enqueue_jobs(QUEUE, [new_job(unique_key="a", rule=STARTED)]) for _ in range(20)]
    )
    assert len({name for (name,) in answers} - {first}) == 1
    assert backend.counts() == (1, 1, 0, 0)


def test_a_call_that_is_sent_again_after_the_start_stores_nothing(backend):
    once = IdempotencyKey(bytes(16), 10**6)
    jobs = [new_job(unique_key="a", rule=STARTED), new_job(unique_key="b", rule=STARTED)]
    names = backend.enqueue_jobs(QUEUE, jobs, once=once)
    backend.take()
    assert backend.enqueue_jobs(QUEUE, jobs, once=once._replace(is_repeat=True)) == names
    assert backend.counts() == (0, 2, 0, 0)


@pytest.mark.parametrize("restart", ["reopen", "crash"])
def test_what_has_started_is_known_after_a_restart(backend, restart):
    first = put(backend)
    backend.take()
    getattr(backend, restart)()
    second = put(backend)
    assert second != first
    getattr(backend, restart)()
    assert put(backend) == second
