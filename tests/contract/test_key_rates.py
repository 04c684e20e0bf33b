"""Rates of keys: no more jobs of a key start in a time than its rate says, on every store."""

import itertools

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from tests.support.bench import LEASE_MS, QUEUE, START_MS, new_job
from tests.support.stores import KEYED_HOMES

HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=KEYED_HOMES)
def home_kind(request):
    return KEYED_HOMES[request.param]


def rated(rate="10/s", text="a", most=None):
    return JobKey(text, most, rate=rate)


def ordered(rate="10/s"):
    return JobKey("a", 1, is_ordered=True, rate=rate)


def put(backend, key, count=1, **options):
    return backend.put(*[new_job(key=key, **options) for _ in range(count)])


def waits(backend, name):
    return backend.look(name).run_after_ms >= WAITS_FOR_KEY_MS


def starts(backend, milliseconds, step_ms, limit=100):
    """Take what is due, step by step; return when each job started, in ms from now."""
    found = []
    for at in range(0, milliseconds, step_ms):
        while names := backend.take_names(limit):
            found += [(at, name) for name in names]
        backend.clock.advance(step_ms)
    return found


def most_within(times, period_ms):
    """Return the most starts in any such period."""
    return max(sum(first <= at < first + period_ms for at in times) for first in times)


# The rate


def test_jobs_of_a_key_start_at_its_rate(backend):
    names = put(backend, rated(), 5)
    assert starts(backend, 500, 50) == [(number * 100, name) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("rate", "period_ms", "step_ms", "jobs"),
    [("20/s", 1000, 17, 48), ("10/m", 60_000, 900, 30), ("3/h", HOUR_MS, 200_000, 9)],
)
def test_a_rate_is_kept_in_any_period(backend, rate, period_ms, step_ms, jobs):
    put(backend, rated(rate), jobs)
    times = [at for at, _ in starts(backend, 4 * period_ms, step_ms)]
    most = int(rate.partition("/")[0])
    assert len(times) == jobs
    assert 0.8 * most <= most_within(times, period_ms) <= most


def test_what_was_not_used_is_not_saved(backend):
    put(backend, rated(), 5)
    backend.clock.advance(HOUR_MS)
    assert [at for at, _ in starts(backend, 500, 50)] == [0, 100, 200, 300, 400]


def test_a_rate_holds_back_no_other_key_and_no_job_without_one(backend):
    first = put(backend, rated("1/h"), 3)[0]
    other = put(backend, rated("1/h", "b"), 3)[0]
    turns = put(backend, JobKey("c"), 3)
    plain = backend.put_one()
    taken = [*backend.take_names(), *backend.take_names(), *backend.take_names()]
    assert sorted(taken) == sorted([first, other, *turns, plain])


def test_a_dequeue_is_told_when_the_next_job_may_start(backend):
    put(backend, rated(), 2)
    assert len(backend.take(1)) == 1
    assert backend.dequeue_jobs(QUEUE, 1, backend.claim(), want_next_due=True).next_due_ms == START_MS + 100


def test_the_rate_holds_when_the_key_has_no_more_jobs_meanwhile(backend):
    for expected in (0, 1, 2):
        name = backend.put_one(key=rated("1/m"))
        if expected:
            assert backend.take_names() == []
            backend.clock.advance(60_000)
        assert backend.take_names() == [name]
        backend.ack(name)


def test_a_rate_outlives_the_process(backend):
    first, second = put(backend, rated("1/m"), 2)
    assert backend.take_names() == [first]
    backend.crash()
    assert backend.take_names() == []
    backend.clock.advance(60_000)
    assert backend.take_names() == [second]


# With limits, and in order


def test_a_rate_and_a_limit_hold_together(backend):
    names = put(backend, rated("1/s", most=2), 4)
    assert [name for _, name in starts(backend, 3000, 500)] == names[:2]
    backend.ack(names[0])
    assert backend.take_names() == [names[2]]
    backend.ack(names[1])
    assert backend.take_names() == []
    backend.clock.advance(1000)
    assert backend.take_names() == [names[3]]


def test_an_ordered_key_with_a_rate_keeps_its_order(backend):
    names = put(backend, ordered("1/s"), 4, attempts=9)
    taken = []
    for number in range(8):
        [name] = backend.take_names()
        taken.append(name)
        assert backend.take_names() == []
        if number % 2:
            backend.ack(name)
        else:
            backend.fail(name)
        assert backend.take_names() == [], "its next attempt counts as well"
        backend.clock.advance(1000)
    assert taken == [name for name in names for _ in range(2)]


# Jobs that come back


GIVEN_BACK = {
    "released": lambda backend, names: backend.release_claims(QUEUE, "worker"),
    "checkpoint": lambda backend, names: [backend.checkpoint(name, move_to_pending=True) for name in names],
    "failed": lambda backend, names: backend.fail(*names),
    "expired": lambda backend, names: (backend.clock.advance(LEASE_MS + 1), backend.reap()),
}


@pytest.mark.parametrize("way", GIVEN_BACK)
def test_jobs_that_are_given_back_start_at_the_rate_before_the_others(backend, way):
    names = put(backend, rated("1/s"), 7, attempts=9)
    taken = [name for _, name in starts(backend, 3000, 1000)]
    assert taken == names[:3]
    GIVEN_BACK[way](backend, taken)
    again = starts(backend, 4000, 500)
    assert most_within([at for at, _ in again], 1000) == 1
    assert set(names[:3]) <= {name for _, name in again}, "at most the one that may start next goes first"
    assert len(again) == 4


def test_a_delayed_retry_makes_way(backend):
    first, second = put(backend, rated("1/s"), 2, attempts=9)
    assert backend.take_names() == [first]
    backend.fail(first, retry_delay_ms=HOUR_MS)
    backend.clock.advance(1000)
    assert backend.take_names() == [second]
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [first]


def test_run_now_does_not_pass_the_rate(backend):
    names = put(backend, rated("1/m"), 3)
    assert backend.take_names() == names[:1]
    for name in names[1:]:
        backend.schedule_jobs(QUEUE, [JobDescriptor.parse(name)], None)
    assert backend.take_names() == []
    assert [at for at, _ in starts(backend, 180_000, 30_000)] == [60_000, 120_000]


def test_nothing_is_logged_when_jobs_of_a_key_that_has_a_rate_come_back(backend, caplog):
    [name] = put(backend, rated())
    backend.take()
    backend.fail(name, is_final=True)
    put(backend, rated())
    assert backend.retry() == 1
    assert not caplog.records


@pytest.mark.parametrize("retry", ["matching", "named"])
def test_jobs_that_are_retried_by_hand_keep_to_the_rate(backend, retry):
    names = [backend.finished(key=rated("1/m", str(number % 2)), state=FAILED) for number in range(1)]
    names += [backend.finished(key=rated("1/m", "other"), state=FAILED)]
    backend.clock.advance(10 * HOUR_MS)
    if retry == "matching":
        assert backend.retry() == 2
    else:
        assert backend.retry_these_jobs(QUEUE, [JobDescriptor.parse(name) for name in names], 1, None) == 2
    assert sorted(backend.take_names()) == sorted(names)
    assert backend.take_names() == []


@pytest.mark.parametrize("end", ["deleted", "cancelled"])
def test_the_end_of_the_job_that_may_start_next_lets_another_one_through(backend, end):
    names = put(backend, rated("1/m"), 3)
    assert backend.take_names() == names[:1]
    if end == "deleted":
        backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(names[1])], PENDING)
    else:
        backend.cancel(names[1])
    assert backend.take_names() == []
    backend.clock.advance(60_000)
    assert backend.take_names() == names[2:]
    backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(names[2])], IN_PROGRESS)
    assert backend.count() == 0


# Changes of the rate


def test_the_newest_rate_counts(backend):
    names = put(backend, rated("1/h"), 3)
    assert backend.take_names() == names[:1]
    backend.clock.advance(10_000)
    assert backend.take_names() == []
    names += put(backend, rated("1/m"))
    assert [at for at, _ in starts(backend, 180_000, 10_000)] == [50_000, 110_000, 170_000]
    put(backend, rated("1/h"))
    assert starts(backend, 600_000, 60_000) == []
    assert backend.look(names[0]).key.rate == "1/h"


def test_the_newest_rate_counts_in_an_ordered_key(backend):
    names = put(backend, ordered("1/h"), 2)
    assert backend.take_names() == names[:1]
    backend.ack(names[0])
    names += put(backend, ordered("1/m"))
    backend.clock.advance(60_000)
    assert backend.take_names() == [names[1]]


def test_a_job_without_a_rate_leaves_the_one_of_its_key(backend):
    names = [*put(backend, rated("1/m")), *put(backend, JobKey("a"), 2)]
    assert [name for _, name in starts(backend, 180_000, 60_000)] == names


def test_a_rate_holds_for_jobs_that_wait_already(backend):
    names = put(backend, JobKey("a"), 4)
    put(backend, rated("1/m"))
    taken = starts(backend, 300_000, 20_000)
    assert [name for _, name in taken][:4] == names
    assert most_within([at for at, _ in taken], 60_000) == 1


def test_a_rate_is_forgotten_when_the_key_has_no_more_jobs(backend):
    name = backend.put_one(key=rated("1/s"))
    backend.take()
    backend.ack(name)
    backend.clock.advance(3 * HOUR_MS)
    backend.collect_finished(HOUR_MS, HOUR_MS, 100)
    backend.forget_results(100)
    backend.put(*[new_job(key=rated("1/s", f"b{number}")) for number in range(20)])
    backend.take()
    names = put(backend, JobKey("a"), 3)
    assert set(names) <= {*backend.take_names(), *backend.take_names(), *backend.take_names()}


# Records


@pytest.mark.parametrize("key", [rated(), rated("7/d", most=5), ordered("100/m")])
def test_records_have_the_rate_in_each_state(backend, key):
    name = backend.put_one(key=key)
    assert backend.look(name).key == key
    assert [job.key for job in backend.scan(PENDING).jobs] == [key]
    backend.take()
    assert [job.key for job in backend.scan(IN_PROGRESS).jobs] == [key]
    backend.fail(name, is_final=True)
    assert backend.look(name).key == key
    assert [job.key for job in backend.scan(FAILED).jobs] == [key]


def test_imported_jobs_keep_to_their_rate_unless_their_key_has_a_newer_one(backend):
    names = put(backend, rated("1/m"), 3)
    records = [backend.look(name) for name in names]
    backend.create_queue("copy")
    copies = backend.import_jobs("copy", records)
    assert backend.look(copies[2]).key == rated("1/m")
    assert backend.take_names(queue="copy") == copies[:1]
    assert backend.take_names(queue="copy") == []
    backend.put_one(key=rated("1/s"), queue="copy")
    more = backend.import_jobs("copy", records)
    taken = []
    for _ in range(6):
        backend.clock.advance(1000)
        taken += backend.take_names(queue="copy")
    assert len(taken) == 6
    assert {*copies[1:], *more} <= set(taken)


def test_a_deleted_queue_takes_its_rates_along(backend):
    put(backend, rated("1/h"), 3)
    backend.take()
    backend.delete_queue(QUEUE)
    backend.create_queue(QUEUE)
    fresh = put(backend, JobKey("a"), 2)
    assert [*backend.take_names(), *backend.take_names()] == fresh


# Turns


def test_rated_keys_take_turns(backend):
    floods = [put(backend, rated("10/s", text), 50) for text in "ab"]
    small = put(backend, rated("10/s", "small"), 2)
    taken = [name for _, name in starts(backend, 600, 20, limit=1)]
    assert set(small) <= set(taken[:6])
    counts = [len(set(flood) & set(taken)) for flood in floods]
    assert abs(counts[0] - counts[1]) <= 2


def test_many_rated_keys_at_once(backend):
    texts = [f"k{number}" for number in range(300)]
    names = backend.put(*[new_job(key=rated("1/m", text)) for text in texts for _ in range(2)])
    assert sorted(backend.take_names(1000)) == sorted(names[::2])
    assert backend.take_names(1000) == []
    backend.clock.advance(60_000)
    assert sorted(backend.take_names(1000)) == sorted(names[1::2])


def test_all_that_waits_runs_in_the_end_whatever_happens_to_it(backend):
    names = put(backend, rated("20/s"), 30, attempts=99)
    times, number = [], itertools.count()
    for at in range(0, 4000, 25):
        for name in backend.take_names():
            times.append(at)
            match next(number) % 4:
                case 0:
                    backend.fail(name)
                case 1:
                    backend.checkpoint(name, move_to_pending=True)
                case 2:
                    backend.fail(name, retry_delay_ms=300)
                case 3:
                    backend.ack(name)
        backend.clock.advance(25)
    assert most_within(times, 1000) <= 20
    assert len(times) >= 70
    assert backend.count() <= len(names) - len(times) // 4


def test_a_job_without_a_rate_leaves_that_of_an_earlier_job_of_its_call(backend):
    first, _ = backend.put(new_job(key=rated("1/m")), new_job(key=JobKey("a")))
    assert backend.take_names(9) == [first]
    backend.clock.advance(59_000)
    assert backend.take_names(9) == []
