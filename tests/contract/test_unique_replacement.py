"""Enqueues under a unique key that replace the job which waits, or put it off."""

import pytest

from pinlater.model.jobs import JobRecord
from pinlater.model.keys import JobKey
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.records import IdempotencyKey
from tests.support.bench import QUEUE, new_job
from tests.support.stores import HOMES

REPLACE = UniqueRule(on_duplicate=OnDuplicate.REPLACE)
DEBOUNCE = UniqueRule(on_duplicate=OnDuplicate.DEBOUNCE)
WITHIN_A_SECOND = DEBOUNCE._replace(max_delay_ms=1000)


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


def put(backend, body=b"body", rule=REPLACE, key="a", **options):
    return backend.put_one(body, unique_key=key, rule=rule, **options)


def later(backend, milliseconds):
    return backend.clock.now_ms + milliseconds


def test_the_waiting_job_gets_body_attempts_and_status(backend):
    first = put(backend, b"first", attempts=2, status="one", priority=2, run_after_ms=later(backend, 500))
    before = backend.look(first)
    backend.clock.advance(100)
    assert put(backend, b"the second", attempts=7, status="two", priority=1) == first
    expected = before._replace(
        body=b"the second", attempts_allowed=7, attempts_remaining=7, status="two", updated_at_ms=backend.clock.now_ms
    )
    assert backend.look(first) == expected
    assert put(backend, b"") == first
    assert (backend.look(first).body, backend.look(first).status) == (b"", "")
    assert backend.counts() == (1, 0, 0, 0)
    backend.clock.advance(400)
    [job] = backend.take()
    assert (job.descriptor, job.body, job.attempts_allowed) == (first, b"", 2)


def test_without_the_rule_the_job_stays_as_it_is(backend):
    first = put(backend, b"first")
    for rule in (None, UniqueRule(), UniqueRule(until_started=True)):
        assert put(backend, b"second", rule=rule) == first
    assert backend.look(first).body == b"first"


@pytest.mark.parametrize("rule", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
@pytest.mark.parametrize("is_back", [False, True], ids=["claimed", "given back"])
def test_a_job_that_has_started_is_not_replaced(backend, rule, is_back):
    first = put(backend, b"first", rule)
    backend.take()
    if is_back:
        backend.fail(first)
    before = backend.look(first)
    assert put(backend, b"second", rule, run_after_ms=later(backend, 9000)) == first
    assert backend.look(first) == before
    second = put(backend, b"third", rule._replace(until_started=True))
    assert second != first
    assert put(backend, b"fourth", rule) == second
    assert (backend.look(first).body, backend.look(second).body) == (b"first", b"fourth")
    assert backend.state(first) == (PENDING if is_back else IN_PROGRESS)


def test_each_enqueue_puts_the_job_off(backend):
    first = put(backend, b"0", DEBOUNCE, run_after_ms=later(backend, 300))
    for number in range(1, 20):
        backend.clock.advance(200)
        assert put(backend, b"%d" % number, DEBOUNCE, run_after_ms=later(backend, 300)) == first
        assert backend.take() == []
    backend.clock.advance(299)
    assert backend.take() == []
    backend.clock.advance(1)
    [job] = backend.take()
    assert (job.descriptor, job.body) == (first, b"19")


def test_a_job_that_is_due_and_was_not_claimed_is_put_off_too(backend):
    first = put(backend, rule=DEBOUNCE)
    assert put(backend, rule=DEBOUNCE, run_after_ms=later(backend, 300)) == first
    assert backend.take() == []
    backend.clock.advance(300)
    assert backend.take_names() == [first]


def test_it_may_come_forward(backend):
    first = put(backend, rule=DEBOUNCE, run_after_ms=later(backend, 3000))
    assert put(backend, rule=DEBOUNCE) == first
    assert backend.take_names() == [first]


def test_no_job_is_put_off_for_longer_than_the_longest_delay(backend):
    first = put(backend, rule=WITHIN_A_SECOND, run_after_ms=later(backend, 300))
    created_at = backend.clock.now_ms
    for _ in range(4):
        backend.clock.advance(240)
        assert put(backend, rule=WITHIN_A_SECOND, run_after_ms=later(backend, 300)) == first
    assert backend.look(first).run_after_ms == created_at + 1000
    backend.clock.advance(39)
    assert backend.take() == []
    backend.clock.advance(1)
    assert put(backend, b"last", WITHIN_A_SECOND, run_after_ms=later(backend, 300)) == first
    assert backend.look(first).run_after_ms == created_at + 1000
    assert [job.body for job in backend.take()] == [b"last"]


def test_no_job_is_due_in_the_past(backend):
    first = put(backend, rule=WITHIN_A_SECOND)
    backend.clock.advance(5000)
    for run_after_ms in (None, 0, later(backend, 300)):
        assert put(backend, rule=WITHIN_A_SECOND, run_after_ms=run_after_ms) == first
        assert backend.look(first).run_after_ms == backend.clock.now_ms


def test_times_far_in_the_future_are_exact(backend):
    first = put(backend, rule=DEBOUNCE, run_after_ms=2**62 + 1)
    assert put(backend, rule=DEBOUNCE, run_after_ms=2**62 + 3) == first
    assert backend.look(first).run_after_ms == 2**62 + 3
    assert put(backend, rule=WITHIN_A_SECOND, run_after_ms=2**62 + 5) == first
    assert backend.look(first).run_after_ms == backend.clock.now_ms + 1000


def test_a_key_that_a_finished_job_has_for_a_time_replaces_nothing(backend):
    minute = REPLACE._replace(period_ms=60_000)
    first = put(backend, b"first", minute)
    assert put(backend, b"second", minute) == first
    assert [job.body for job in backend.take()] == [b"second"]
    backend.ack(first)
    assert put(backend, b"third", minute) == first
    assert backend.look(first).body == b"second"
    assert backend.counts() == (0, 0, 1, 0)


def test_keys_within_one_call_count(backend):
    at = later(backend, 300)
    stored = put(backend, b"0", key="b")
    names = backend.put(
        new_job(b"1", unique_key="a", rule=REPLACE, status="x", attempts=3),
        new_job(b"2"),
        new_job(b"3", unique_key="a", rule=DEBOUNCE, run_after_ms=at, attempts=4),
        new_job(b"4", unique_key="b", rule=DEBOUNCE, run_after_ms=at),
        new_job(b"5", unique_key="a", rule=REPLACE, attempts=5),
        new_job(b"6", unique_key="a"),
        new_job(b"7", unique_key="b", rule=REPLACE),
        new_job(b"8", priority=2),
    )
    assert names[0] == names[2] == names[4] == names[5]
    assert names[3] == names[6] == stored
    record = backend.look(names[0])
    assert (record.body, record.status, record.attempts_allowed, record.run_after_ms) == (b"5", "", 5, at)
    assert (backend.look(stored).body, backend.look(stored).run_after_ms) == (b"7", at)
    assert [job.body for job in backend.take()] == [b"2", b"8"]
    backend.clock.advance(300)
    assert sorted(job.body for job in backend.take()) == [b"5", b"7"]


@pytest.mark.parametrize("rule", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
def test_an_imported_job_that_had_failed_begins_anew(backend, rule):
    due = later(backend, -500)
    failed = JobRecord("elsewhere:s7:p1:42", PENDING, 3, 2, "TimeoutError", 0, due, 0, None, b"", "a", failure_group=7)
    (first,) = backend.import_jobs(QUEUE, [failed])
    assert (backend.count(is_retrying=True), len(backend.failure_groups([], 10))) == (1, 1)
    assert put(backend, b"new", rule) == first
    assert backend.look(first).failure_group is None
    for call in (backend.take_names, lambda: backend.ack(first).changed):
        assert (backend.count(is_retrying=True), backend.failure_groups([], 10)) == (0, [])
        assert call()
    assert (backend.count(is_retrying=True), backend.scan(is_retrying=True).jobs) == (0, [])


@pytest.mark.parametrize("wait", [1000, 9000], ids=["earlier", "later"])
def test_a_job_that_waits_for_its_ordered_key_is_put_off_but_not_moved_ahead(backend, wait):
    options = {"unique_key": "u", "rule": DEBOUNCE, "key": JobKey("a", 1, is_ordered=True)}
    names = backend.put(*[new_job(key=options["key"], run_after_ms=later(backend, 5000)) for _ in range(2)])
    names += backend.put(new_job(b"old", **options))
    assert backend.put(new_job(b"new", run_after_ms=later(backend, wait), **options)) == names[2:]
    backend.clock.advance(5000)
    for name in names:
        backend.clock.advance(4000 if name == names[2] and wait > 5000 else 0)
        [job] = backend.take()
        assert job.descriptor == name
        backend.ack(name)
    assert job.body == b"new"


def test_calls_at_once_leave_one_job_with_the_body_of_one(backend):
    bodies = [b"%d" % number for number in range(20)]
    answers = backend.together(
        *[lambda body=body: backend.backend.enqueue_jobs(QUEUE, [new_job(body, unique_key="a", rule=REPLACE)])
          for body in bodies]
    )  # fmt: skip
    assert len({name for (name,) in answers}) == 1
    [job] = backend.take()
    assert job.body in bodies


def test_a_call_that_is_sent_again_does_not_bring_its_body_back(backend):
    once = IdempotencyKey(bytes(16), 10**6)
    first = put(backend, b"first")
    jobs = [new_job(b"second", unique_key="a", rule=REPLACE)]
    assert backend.enqueue_jobs(QUEUE, jobs, once=once) == [first]
    assert put(backend, b"third") == first
    assert backend.enqueue_jobs(QUEUE, jobs, once=once._replace(is_repeat=True)) == [first]
    assert backend.look(first).body == b"third"


@pytest.mark.parametrize("restart", ["reopen", "crash"])
def test_replaced_jobs_outlive_the_server(backend, restart):
    first = put(backend, b"first")
    put(backend, b"second", DEBOUNCE, run_after_ms=later(backend, 300))
    getattr(backend, restart)()
    assert backend.take() == []
    backend.clock.advance(300)
    assert [(job.descriptor, job.body) for job in backend.take()] == [(first, b"second")]
