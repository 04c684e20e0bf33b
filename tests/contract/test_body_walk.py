"""Searches of bodies end in time: with what was found, how many jobs were looked at, and where to go on."""

import random

import pytest

from pinlater.protocol.messages import FAILED, PENDING, SUCCEEDED
from pinlater.server.backends import body_walk
from pinlater.server.backends.body_pattern import BodyPattern
from tests.support.bench import STATES, new_job
from tests.support.stores import HOMES, PRIORITY_LEVELS

JOBS = 300
MOST_SHARDS = 2


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


@pytest.fixture
def small_walks(monkeypatch):
    """Walks of few, short pages."""
    monkeypatch.setattr(body_walk, "MAX_PAGES", 4)
    monkeypatch.setattr(body_walk, "FIRST_PAGE_JOBS", 7)
    monkeypatch.setattr(body_walk, "NEXT_PAGE_JOBS", 9)


def _put(backend, jobs=JOBS, state=PENDING):
    """Store jobs of all priorities, many due at the same moment; return those with a needle, latest first."""
    chance, now = random.Random(5), backend.clock.now_ms
    new = [
        new_job(
            b"needle" if chance.random() < 0.05 else b"hay",
            priority=chance.randint(1, PRIORITY_LEVELS),
            run_after_ms=now - chance.randint(0, 5),
        )
        for _ in range(jobs)
    ]
    names = [name for at in range(0, jobs, 10) for name in backend.put(*new[at : at + 10])]
    if state != PENDING:
        taken = []
        while len(taken) < jobs:  # a dequeue asks no further shard when one has taken long
            taken += backend.take_names(jobs - len(taken))
        if state == FAILED:
            backend.fail(*taken, is_final=True)
        elif state == SUCCEEDED:
            backend.ack(*taken)
    return [name for name, job in zip(names, new, strict=True) if job.body == b"needle"]


def _walks(backend, **options):
    """Return the pages of a search that goes on until it has looked at all jobs."""
    pages, position = [], None
    while not pages or position is not None:
        pages.append(backend.scan(position=position, body_regex="needle", **options))
        position = pages[-1].position
    return pages


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_a_search_goes_on_until_it_has_looked_at_every_job_once(backend, small_walks, state, oldest_first):
    needles = _put(backend, state=state)
    everything = [job.descriptor for job in backend.scan(state, limit=JOBS, oldest_first=oldest_first).jobs]
    pages = _walks(backend, state=state, oldest_first=oldest_first)
    assert [job.descriptor for page in pages for job in page.jobs] == [one for one in everything if one in needles]
    assert sum(page.looked_at for page in pages) == JOBS
    assert max(page.looked_at for page in pages) <= 4 * 9 * MOST_SHARDS
    assert all(page.looked_at for page in pages[:-1])


def test_a_full_page_ends_a_search(backend):
    needles = _put(backend)
    pages = _walks(backend, limit=3)
    assert [len(page.jobs) for page in pages[:-1]] == [3] * (len(pages) - 1)
    assert sum(len(page.jobs) for page in pages) == len(needles)
    assert sum(page.looked_at for page in pages) == JOBS


def test_a_search_without_time_gets_on(backend, monkeypatch):
    monkeypatch.setattr(BodyPattern, "is_late", True)
    needles = _put(backend, 30)
    pages = _walks(backend)
    assert sorted(job.descriptor for page in pages for job in page.jobs) == sorted(needles)
    assert sum(page.looked_at for page in pages) == 30
    assert len(pages) > 5


def test_other_scans_do_not_say_how_many_they_looked_at(backend):
    _put(backend, 20)
    assert backend.scan(limit=10).looked_at is None


def test_large_bodies_are_searched_to_their_end(backend):
    backend.put(*[new_job(b"x" * 200_000 + b"needle"), new_job(b"x" * 200_000)])
    [page] = _walks(backend)
    assert len(page.jobs) == 1
    assert page.looked_at == 2
