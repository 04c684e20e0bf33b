"""Keys take turns: which of the jobs that are due is handed out next, however many a dequeue takes at once."""

import random
from collections import Counter, defaultdict

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.server.backends.key_turns import LEAD_MS
from tests.support.bench import QUEUE, new_job
from tests.support.examples import IS_THOROUGH
from tests.support.stores import KEYED_HOMES

JOBS_OF_KEYS = {"flood": 120, "b": 40, "c": 12, "d": 4}


@pytest.fixture(scope="module", params=KEYED_HOMES)
def home_kind(request):
    return KEYED_HOMES[request.param]


@pytest.mark.parametrize(("most", "between"), [(1, 1), (3, 3), (8, 5)])
@pytest.mark.parametrize("seed", range(30 if IS_THOROUGH else 1))
def test_keys_without_a_limit_take_turns(backend, most, between, seed):
    """Dequeues that take one job at a time go round the keys. Others share what they take between those they find.

    Of keys whose next jobs are let through in the same millisecond, the older job comes first, which may be one more.
    """
    jobs_of, taken = {}, defaultdict(list)
    for text, count in JOBS_OF_KEYS.items():
        jobs_of[text] = backend.put(*[new_job(key=JobKey(text)) for _ in range(count)])
        backend.clock.advance(1)
    key_of = {name: text for text, names in jobs_of.items() for name in names}
    limits = random.Random(seed)
    while sum(map(len, taken.values())) < len(key_of):
        names = backend.take_names(limits.randint(1, most))
        assert names
        for name in names:
            taken[JobDescriptor.parse(name).shard].append(name)
        backend.clock.advance(1)
    for names in taken.values():  # shards take turns as well, so they are not compared with each other
        for text in {key_of[name] for name in names}:
            assert [name for name in names if key_of[name] == text] == jobs_of[text]
            assert most_between([key_of[name] for name in names], text) <= between


def most_between(keys, key):
    """Return how many jobs of any other key are handed out before the first of this one, or between two of them."""
    most, between = 0, Counter()
    for other in keys:
        if other == key:
            most, between = max([most, *between.values()]), Counter()
        else:
            between[other] += 1
    return most


def test_a_dequeue_that_lets_jobs_through_says_that_there_are_more(backend):
    backend.put(*[new_job(key=JobKey("flood")) for _ in range(100)])
    got = 0
    while got < 100:
        found = backend.dequeue_jobs(QUEUE, 40, backend.claim(), want_next_due=True)
        got += len(found.jobs)
        assert found.jobs
        assert found.has_more == (got < 100)


def test_a_dequeue_says_that_it_has_let_a_job_of_another_priority_through(backend):
    names = [backend.put_one(key=JobKey("a"), priority=priority) for priority in (2, 1, 3)]
    taken, has_more = [], True
    while has_more:
        found = backend.dequeue_jobs(QUEUE, 50, backend.claim(), want_next_due=True)
        taken += [job.descriptor for job in found.jobs]
        has_more = found.has_more
    assert sorted(taken) == sorted(names)


def test_a_new_job_goes_ahead_of_the_turns_of_the_last_moments(backend):
    flood, new, late = map(JobKey, keys_of_one_shard(backend, 3))
    jobs = backend.put(*[new_job(key=flood) for _ in range(9)])
    assert backend.take_names(1) == [jobs[0]]
    backend.clock.advance(LEAD_MS - 1)
    names = backend.put(new_job(key=new))
    assert backend.take_names(1) == names
    backend.clock.advance(2)
    backend.put(new_job(key=late))
    assert backend.take_names(1) == [jobs[1]]


def keys_of_one_shard(backend, count):
    """Return texts of keys whose jobs one shard has."""
    found = defaultdict(list)
    names = backend.put(*[new_job(key=JobKey(str(number))) for number in range(4 * count)])
    for number, name in enumerate(names):
        found[JobDescriptor.parse(name).shard].append(str(number))
    backend.ack(*backend.take_names(len(names)))
    return max(found.values(), key=len)[:count]


def test_only_a_job_that_is_due_at_once_goes_ahead(backend):
    due = backend.clock.now_ms + 100
    name = backend.put_one(key=JobKey("a"), run_after_ms=due)
    assert backend.look(name).run_after_ms == due


def test_limited_keys_take_turns_as_well(backend):
    flood = backend.put(*[new_job(key=JobKey("flood", 2)) for _ in range(20)])
    backend.clock.advance(10)
    other = backend.put_one(key=JobKey("other", 1))
    first = backend.take_names(2)
    assert first == flood[:2]
    backend.clock.advance(10)
    backend.ack(*first)
    assert backend.take_names(1) == [other]


@pytest.mark.parametrize("limit", [None, 3])
def test_a_key_whose_jobs_wait_for_retries_takes_turns_as_well(backend, limit):
    backend.put(*[new_job(key=JobKey("flood", limit)) for _ in range(30)])
    while names := backend.take_names():
        backend.fail(*names, retry_delay_ms=3_600_000)
        backend.clock.advance(1)
    flood = backend.put(*[new_job(key=JobKey("flood", limit)) for _ in range(30)])
    backend.clock.advance(1)
    other = backend.put_one(key=JobKey("other", limit), priority=1)
    assert set(backend.take_names(1 + (limit or 1))) == {*flood[: limit or 1], other}
