"""Counts: by state, priority, due or future, and body."""

import contextlib

import pytest

from pinlater.errors import UnknownError
from pinlater.model.failure_groups import failure_of
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.support.bench import QUEUE, STATES, new_job
from tests.support.patterns import SLOW_BODY, SLOW_PATTERN


def test_each_state_is_counted_by_itself(backend):
    for number, state in enumerate((SUCCEEDED, FAILED), 2):
        for _ in range(number):
            backend.finished(state=state)
    for _ in range(4):
        backend.started()
    backend.put(new_job())
    assert [backend.count(state) for state in (PENDING, IN_PROGRESS, SUCCEEDED, FAILED)] == [1, 4, 2, 3]


def test_each_queue_says_in_which_states_it_has_jobs(backend):
    backend.create_queue("other")
    backend.create_queue("idle")
    assert backend.states_in_use() == {QUEUE: set(), "other": set(), "idle": set()}
    for state in (SUCCEEDED, FAILED):
        backend.finished(state=state)
        assert state in backend.states_in_use()[QUEUE]
    backend.started()
    assert backend.states_in_use()[QUEUE] == {IN_PROGRESS, SUCCEEDED, FAILED}
    backend.enqueue_jobs("other", [new_job(priority=3, run_after_ms=2**62)])
    assert backend.states_in_use() == {QUEUE: {IN_PROGRESS, SUCCEEDED, FAILED}, "other": {PENDING}, "idle": set()}
    backend.delete_queue("other")
    assert "other" not in backend.states_in_use()


def test_by_priority_or_over_all_of_them(backend):
    backend.put(*[new_job(priority=priority) for priority in (1, 2, 2, 3, 3, 3)])
    assert [backend.count(priority=priority) for priority in (1, 2, 3, None)] == [1, 2, 3, 6]
    backend.take()
    assert [backend.count(IN_PROGRESS, priority=priority) for priority in (1, 2, 3, None)] == [1, 2, 3, 6]


def test_a_job_is_due_or_future_never_both(backend):
    now = backend.clock.now_ms
    backend.put(*[new_job(run_after_ms=run_after) for run_after in (0, now - 1, now, now + 1, 2**63 - 1, -(2**63))])
    assert (backend.count(is_future=False), backend.count(is_future=True), backend.count()) == (4, 2, 6)
    backend.clock.advance(1)
    assert (backend.count(is_future=False), backend.count(is_future=True), backend.count()) == (5, 1, 6)


@pytest.mark.parametrize("state", STATES)
def test_due_and_future_apply_to_every_state(backend, state):
    descriptor, _ = backend.started(attempts=1)
    if state == PENDING:
        backend.release_claims(QUEUE, "worker")
    elif state == SUCCEEDED:
        backend.ack(descriptor)
    elif state == FAILED:
        backend.fail(descriptor)
    assert (backend.count(state, is_future=False), backend.count(state, is_future=True)) == (1, 0)


def test_a_claimed_job_with_a_run_after_ahead_is_future(backend):
    descriptor, _ = backend.started()
    backend.checkpoint(descriptor, run_after_ms=backend.clock.now_ms + 1000)
    assert (backend.count(IN_PROGRESS, is_future=False), backend.count(IN_PROGRESS, is_future=True)) == (0, 1)


def test_body_patterns_find_a_part_of_the_body(backend):
    backend.put(*[new_job(f"job_body_{n}".encode(), priority=n % 3 + 1) for n in range(20)])
    for pattern, found in {
        "job_body_1.*": 11,
        "job_body_*": 20,
        "_body_": 20,
        "^job": 20,
        "^body": 0,
        "1$": 2,
        "JOB": 0,
        "(?i)JOB": 20,
        "body_(3|4)$": 2,
        "": 20,
        "'": 0,
        "' OR 1=1 -- ": 0,
        "%": 0,
    }.items():
        assert backend.count(body_regex=pattern) == found, pattern
    assert backend.count(body_regex="body_1", priority=2) == 5


def test_patterns_work_on_bytes(backend):
    backend.put(new_job("späť 🐙".encode()), new_job(b"\xff\xfe"), new_job(b"a\nb"), new_job(b"a\0b"))
    for pattern, found in {"🐙": 1, "ä": 1, r"\xff\xfe": 1, "a.b": 1, "(?s)a.b": 2, r"\x00": 1}.items():
        assert backend.count(body_regex=pattern) == found, pattern


def test_counting_stops_at_a_bound_for_each_priority(backend):
    """The store under test was made with a bound of 50."""
    backend.put(*[new_job(priority=priority) for priority in (1, 2) for _ in range(60)], new_job(priority=3))
    assert backend.count() == 101
    assert backend.count(priority=1) == 50
    assert backend.count(body_regex="body") == 101


@pytest.mark.parametrize("pattern", [None, "body"])
def test_jobs_that_are_not_retrying_are_counted_up_to_the_bound_beside_those_that_are(backend, pattern):
    """The store under test was made with a bound of 50."""
    jobs = [new_job(priority=priority, attempts=9) for priority in (1, 2) for _ in range(60)]
    backend.put(*jobs, new_job(priority=3, attempts=9))
    backend.fail(*backend.take_names(1000), failure=failure_of("Mail", "boom"))
    backend.put(*[new_job(priority=1) for _ in range(30)], *[new_job(priority=2) for _ in range(70)])
    assert backend.count(is_retrying=True, body_regex=pattern) == 101
    assert backend.count(skips_retrying=True, body_regex=pattern) == 80
    assert backend.count(skips_retrying=True, priority=1, is_future=False, body_regex=pattern) == 30
    assert backend.count(skips_retrying=True, is_future=True, body_regex=pattern) == 0


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?P<x", "\\", "x" * 2000])
@pytest.mark.parametrize("verb", ["count", "scan", "delete"])
def test_a_bad_pattern_is_a_clear_error(backend, pattern, verb):
    backend.put(new_job())
    with pytest.raises(UnknownError, match="pattern"):
        getattr(backend, verb)(body_regex=pattern)
    assert backend.counts() == (1, 0, 0, 0)


def test_a_deeply_nested_pattern_is_searched_for_or_refused(backend):
    backend.put(new_job())
    with contextlib.suppress(UnknownError):
        assert backend.count(body_regex="(" * 500 + "body" + ")" * 500) == 1
    assert backend.counts() == (1, 0, 0, 0)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){25}$"])
def test_a_pattern_that_explodes_elsewhere_is_searched_for(backend, pattern):
    backend.put(new_job(b"a" * 5000 + b"b"), new_job(b"a" * 5000))
    assert backend.count(body_regex=pattern) == 1


def test_a_search_that_takes_long_is_given_up(backend):
    """The store under test was made with a limit of 1.5 s; each of these bodies takes some tenths."""
    names = backend.put(*[new_job(SLOW_BODY)] * 40)
    with pytest.raises(UnknownError, match="took longer than"):
        backend.count(body_regex=SLOW_PATTERN)
    assert sorted(backend.take_names(40)) == sorted(names)


def test_when_the_first_job_of_each_queue_falls_due(backend):
    for queue in ("later", "empty"):
        backend.create_queue(queue)
    now = backend.clock()
    for priority, run_after_ms in ((1, now + 90), (2, now - 40), (3, now - 20)):
        backend.enqueue_jobs(QUEUE, [new_job(priority=priority, run_after_ms=run_after_ms)])
    backend.enqueue_jobs("later", [new_job(run_after_ms=now + 70)])
    found = backend.first_due(["missing", "empty", "later", QUEUE])
    assert found == {"empty": None, "later": now + 70, QUEUE: now - 40}
    assert backend.first_due([]) == {}
    backend.take(5)
    assert backend.first_due([QUEUE]) == {QUEUE: now + 90}, "who is claimed is not due"


def test_the_store_tells_its_size(backend):
    backend.put(*[new_job(b"x" * 10_000) for _ in range(20)])
    [(shard, size)] = backend.sizes().items()
    assert shard == "1"
    assert size.used_bytes > 0
    assert size.free_bytes is None or size.free_bytes > 0
