"""Idempotency keys: a call that is sent again finds the result of the first, and changes nothing."""

import functools
import itertools

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, PENDING, SUCCEEDED
from pinlater.server.backends.records import IdempotencyKey, JobFilter
from tests.contract.test_import import record
from tests.support.bench import QUEUE, new_job

KEEP_MS = 600_000
_numbers = itertools.count(1)


def new_key(keep_ms=KEEP_MS):
    return IdempotencyKey(next(_numbers).to_bytes(16, "big"), keep_ms)


def again(key):
    return key._replace(is_repeat=True)


def failed_jobs(backend, count, **options):
    names = backend.put(*[new_job(body=b"%d" % number, **options) for number in range(count)])
    backend.take(count)
    backend.fail(*names, is_final=True)
    return names


def _jobs():
    return [new_job(b"a"), new_job(b"b", priority=3), new_job(b"c", run_after_ms=5)]


def _keyed_jobs():
    return [new_job(b"a", unique_key="a"), new_job(b"b", priority=2), new_job(b"c", unique_key="a")]


def _records():
    return [record(), record(FAILED, priority=2), record(key="r"), record(SUCCEEDED)]


CALLS = {
    "enqueue": lambda backend, key: backend.enqueue_jobs(QUEUE, _jobs(), once=key),
    "enqueue with unique keys": lambda backend, key: backend.enqueue_jobs(QUEUE, _keyed_jobs(), once=key),
    "import": lambda backend, key: backend.import_jobs(QUEUE, _records(), once=key),
    "retry": lambda backend, key: backend.retry_failed_jobs(QUEUE, 1, 1, None, 3, once=key),
    "delete": lambda backend, key: backend.delete_jobs(QUEUE, JobFilter(FAILED, 1), 3, once=key),
    "delete by body": lambda backend, key: backend.delete_jobs(QUEUE, JobFilter(FAILED, 1, None, "1|2"), 3, once=key),
}


@pytest.fixture(params=CALLS)
def call(request, backend):
    """A call of a key, made on a queue where it has something to do ten times."""
    failed_jobs(backend, 30)
    make = CALLS[request.param]
    return lambda key=None: make(backend, key)


def test_a_repeat_finds_the_first(backend, call):
    key = new_key()
    first = call(key)
    counts = backend.counts()
    assert call(again(key)) == first
    assert call(key) == first, "also one that does not say that it is a repeat"
    assert backend.counts() == counts


def test_another_key_and_none_are_other_calls(backend, call):
    results = [call(new_key()), call(new_key()), call(), call()]
    counts = [backend.counts()]
    call(new_key())
    assert backend.counts() != counts[0]
    if isinstance(results[0], list):
        assert len({names[1] for names in results}) == 4
    else:
        assert results == [3, 3, 3, 3]


@pytest.mark.parametrize("restart", ["reopen", "crash"])
def test_a_result_outlives_the_server(backend, call, restart):
    key = new_key()
    first = call(key)
    counts = backend.counts()
    getattr(backend, restart)()
    assert call(again(key)) == first
    assert backend.counts() == counts


def test_a_result_is_kept_for_its_time_and_no_longer(backend, call):
    key = new_key(keep_ms=1000)
    first = call(key)
    backend.clock.advance(999)
    counts = backend.counts()
    assert call(again(key)) == first
    assert backend.counts() == counts
    backend.clock.advance(1001)
    call(key)
    assert backend.counts() != counts
    counts = backend.counts()
    call(again(key))
    assert backend.counts() == counts, "the second one is remembered as the first one was"


def test_the_same_call_twice_at_once_is_done_once(backend, request):
    failed_jobs(backend, 30)
    for name, make in CALLS.items():
        key = new_key()
        before = backend.counts()
        answers = backend.together(*[functools.partial(make, backend.backend, key)] * 5)
        assert all(answer == answers[0] for answer in answers), name
        after = backend.counts()
        assert make(backend, key) == answers[0], name
        assert backend.counts() == after != before, name


def test_calls_at_once_with_keys_of_their_own_are_all_done(backend):
    keys = [new_key() for _ in range(150)]
    calls = [lambda key=key: backend.backend.enqueue_jobs(QUEUE, [new_job()], once=key) for key in keys]
    names = [answer[0] for answer in backend.together(*calls)]
    assert len(set(names)) == 150
    others = [new_key() for _ in range(150)]
    mixed = [
        lambda key=key: backend.backend.enqueue_jobs(QUEUE, [new_job()], once=key)
        for pair in zip(keys, others, strict=True)
        for key in pair
    ]
    answers = [answer[0] for answer in backend.together(*mixed)]
    assert answers[::2] == names
    assert len({*answers}) == 300


def test_a_finished_job_is_found_as_well(backend):
    key = new_key()
    (name,) = backend.enqueue_jobs(QUEUE, [new_job(unique_key="a")], once=key)
    backend.take()
    backend.ack(name)
    assert backend.enqueue_jobs(QUEUE, [new_job(unique_key="a")], once=again(key)) == [name]
    assert backend.counts() == (0, 0, 1, 0)
    assert backend.enqueue_jobs(QUEUE, [new_job(unique_key="a")], once=new_key()) != [name]


@pytest.mark.parametrize("verb", ["retry", "delete"])
def test_named_jobs_are_changed_once(backend, verb):
    names = failed_jobs(backend, 4)
    jobs = [record_of.descriptor for record_of in map(backend.look, names)]
    key = new_key()
    first = _change_these(backend, verb, jobs[:2], key)
    assert first == 2
    if verb == "retry":
        backend.take()
        backend.fail(*names[:2], is_final=True)
    counts = backend.counts()
    assert _change_these(backend, verb, jobs[:2], again(key)) == 2
    assert backend.counts() == counts
    assert _change_these(backend, verb, jobs[2:], new_key()) == 2


def _change_these(backend, verb, names, key):
    jobs = [JobDescriptor.parse(name) for name in names]
    if verb == "retry":
        return backend.retry_these_jobs(QUEUE, jobs, 1, None, once=key)
    return backend.delete_these_jobs(QUEUE, jobs, FAILED, once=key)


def test_a_repeat_does_what_was_left_of_the_limit(backend):
    failed_jobs(backend, 3)
    key = new_key()
    assert backend.retry_failed_jobs(QUEUE, 1, 1, None, 10, once=key) == 3
    failed_jobs(backend, 12)
    before = backend.counts()[FAILED]
    assert backend.retry_failed_jobs(QUEUE, 1, 1, None, 10, once=again(key)) == 10
    assert backend.counts()[FAILED] == before - 7


def test_nothing_done_is_a_result_too(backend):
    key = new_key()
    assert backend.delete_jobs(QUEUE, JobFilter(PENDING, 1), 0, once=key) == 0
    assert backend.enqueue_jobs(QUEUE, [], once=new_key()) == []
    assert backend.import_jobs(QUEUE, [], once=new_key()) == []


def test_what_could_not_be_stored_is_not_remembered(backend):
    key = new_key()
    with pytest.raises(Exception, match="nothing was changed"):
        backend.enqueue_jobs(QUEUE, [new_job(), new_job(run_after_ms=2**80)], once=key)
    (name,) = backend.enqueue_jobs(QUEUE, [new_job()], once=again(key))
    assert backend.take_names() == [name]


def test_a_large_batch_is_found_whole(backend):
    key = new_key()
    jobs = [new_job(b"%d" % number, unique_key=f"key {number}" if number % 3 else None) for number in range(1200)]
    names = backend.enqueue_jobs(QUEUE, jobs, once=key)
    assert backend.enqueue_jobs(QUEUE, jobs, once=again(key)) == names
    records = [record(body=b"%d" % number) for number in range(700)]
    key = new_key()
    names = backend.import_jobs(QUEUE, records, once=key)
    assert backend.import_jobs(QUEUE, records, once=again(key)) == names


def test_results_are_forgotten_in_bounded_steps(new_backend):
    backend = new_backend
    for _ in range(5):
        backend.enqueue_jobs(QUEUE, [new_job()], once=new_key(keep_ms=1000))
    backend.enqueue_jobs(QUEUE, [new_job()], once=new_key(keep_ms=9000))
    assert backend.forget_results(10) == 0
    backend.clock.advance(1001)
    if backend.backend.capabilities.name == "redis":  # which ends them by itself
        return
    assert [backend.forget_results(2) for _ in range(4)] == [2, 2, 1, 0]
    backend.clock.advance(9000)
    assert backend.forget_results(10) == 1
