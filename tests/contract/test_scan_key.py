"""Jobs are found by their key, shared or unique, however many others there are."""

import random

import pytest

from pinlater.model.keys import JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from tests.support.bench import new_job
from tests.support.stores import HOMES, PRIORITY_LEVELS

KEYS = ("ada", "adam", "ad", "ö'\\%")


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


def _has(job, key):
    return job.unique == key or (job.key is not None and job.key.text == key)


def _fill(backend, jobs=120):
    """Store jobs that share keys, with and without limits, that have unique keys, and that have none."""
    chance, now = random.Random(11), backend.clock.now_ms
    for number in range(jobs):
        key = chance.choice([None, *(JobKey(text) for text in KEYS[:3]), JobKey(KEYS[3], is_ordered=True)])
        backend.put_one(
            priority=chance.randint(1, PRIORITY_LEVELS),
            run_after_ms=now + chance.randint(-3, 3),
            key=key,
            unique_key=KEYS[number] if number < len(KEYS) else None,
        )
        if number % 10 == 0:
            backend.take(4)


def _pages(backend, state, key, limit, *, oldest_first):
    names, position, is_first = [], None, True
    while is_first or position is not None:
        page = backend.scan(state, limit=limit, position=position, key=key, oldest_first=oldest_first)
        assert len(page.jobs) <= limit
        names += [job.descriptor for job in page.jobs]
        position, is_first = page.position, False
    return names


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS])
def test_all_jobs_of_a_key_are_found_in_order(backend, state, oldest_first):
    _fill(backend)
    everything = backend.scan(state, limit=500, oldest_first=oldest_first).jobs
    for key in KEYS:
        expected = [job.descriptor for job in everything if _has(job, key)]
        assert expected or (state == IN_PROGRESS and key == KEYS[3]), "the test has to have such jobs"
        for limit in (1, 4, 100):
            assert _pages(backend, state, key, limit, oldest_first=oldest_first) == expected


def test_the_holder_of_a_unique_key_is_found(backend):
    name = backend.put_one(unique_key="invoice-9", key=JobKey("customer"))
    backend.put(*[new_job()] * 5)
    assert [job.descriptor for job in backend.scan(key="invoice-9").jobs] == [name]
    assert backend.scan(IN_PROGRESS, key="invoice-9").jobs == []
    assert backend.scan(key="invoice").jobs == []


def test_a_job_that_has_both_keys_is_found_once(backend):
    name = backend.put_one(unique_key="same", key=JobKey("same"))
    assert [job.descriptor for job in backend.scan(key="same").jobs] == [name]


def test_a_finished_job_is_found_no_more(backend):
    backend.put_one(key=JobKey("customer"))
    backend.ack(*backend.take_names(1))
    assert backend.scan(key="customer").jobs == backend.scan(IN_PROGRESS, key="customer").jobs == []
