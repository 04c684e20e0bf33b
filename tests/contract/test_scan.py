"""Scans: latest run_after first, or the oldest, page by page."""

import random

import pytest

from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.support.bench import QUEUE, STATES, new_job


def _pages(backend, state, limit, **options):
    """Return the descriptors of all pages, and how many pages there were."""
    names, position, pages = [], None, 0
    while pages == 0 or position is not None:
        page = backend.scan(state, limit=limit, position=position, **options)
        assert len(page.jobs) <= limit
        names += [record.descriptor for record in page.jobs]
        position = page.position
        pages += 1
    return names, pages


def _into(backend, state):
    """Bring all pending, due jobs into ``state``."""
    if state == PENDING:
        return
    names = backend.take_names(1000)
    if state == SUCCEEDED:
        backend.ack(*names)
    elif state == FAILED:
        backend.fail(*names, is_final=True)


def test_records_are_those_of_a_lookup_without_body(backend):
    names = backend.put(*[new_job(f"{n}".encode(), status="s", priority=n % 3 + 1) for n in range(5)])
    backend.clock.advance(1)
    page = backend.scan()
    assert sorted(page.jobs) == sorted(backend.look(name, include_body=False) for name in names)
    assert page.position is None


@pytest.mark.parametrize("state", STATES)
def test_paging_meets_every_job_once_in_order(backend, state):
    now = backend.clock.now_ms
    chance = random.Random(3)
    names = backend.put(
        *[new_job(priority=chance.randint(1, 3), run_after_ms=now - chance.randint(0, 4)) for _ in range(83)]
    )
    _into(backend, state)
    order = {name: (backend.look(name).run_after_ms, at) for at, name in enumerate(names)}
    expected = sorted(names, key=order.get, reverse=True)
    for limit, pages in {1: 83, 2: 42, 10: 9, 82: 2, 83: 1, 100: 1}.items():
        assert _pages(backend, state, limit) == (expected, pages)
    assert backend.scan(IN_PROGRESS if state == PENDING else PENDING).jobs == []


@pytest.mark.parametrize("state", STATES)
def test_the_oldest_first(backend, state):
    now = backend.clock.now_ms
    chance = random.Random(8)
    backend.put(*[new_job(priority=chance.randint(1, 3), run_after_ms=now - chance.randint(0, 9)) for _ in range(40)])
    _into(backend, state)
    [latest_first, _] = _pages(backend, state, 100)
    assert len(latest_first) == 40
    for limit in (1, 7, 40):
        [oldest_first, _] = _pages(backend, state, limit, oldest_first=True)
        assert oldest_first == latest_first[::-1]
    assert backend.scan(state, oldest_first=True, is_future=False).jobs == backend.scan(state, oldest_first=True).jobs


@pytest.mark.parametrize("state", STATES)
def test_paging_is_not_disturbed_by_what_changes_meanwhile(backend, state):
    names = backend.put(*[new_job(run_after_ms=backend.clock.now_ms - n) for n in range(20)])
    _into(backend, state)
    first = backend.scan(state, limit=10)
    backend.delete(state, limit=20, body_regex="nothing has this")
    backend.put(*[new_job() for _ in range(5)])
    second = backend.scan(state, limit=50, position=first.position)
    assert [record.descriptor for record in (*first.jobs, *second.jobs)] == names
    assert second.position is None


def test_future_and_due_jobs_are_scanned_apart(backend):
    now = backend.clock.now_ms
    due = backend.put(*[new_job(run_after_ms=now - n) for n in range(3)])
    future = backend.put(*[new_job(run_after_ms=now + 10 - n) for n in range(3)])
    assert _pages(backend, PENDING, 2, is_future=False) == (due, 2)
    assert _pages(backend, PENDING, 2, is_future=True) == (future, 2)
    assert _pages(backend, PENDING, 2) == (future + due, 3)


def test_by_priority(backend):
    names = backend.put(*[new_job(priority=n % 3 + 1) for n in range(9)])
    assert _pages(backend, PENDING, 2, priority=2) == ([names[7], names[4], names[1]], 2)


def test_by_body_with_pages(backend):
    names = backend.put(*[new_job(f"{'even' if n % 2 == 0 else 'odd'} {n}".encode()) for n in range(30)])
    assert _pages(backend, PENDING, 4, body_regex=".*even.*") == (names[28::-2], 4)


def test_a_rare_body_is_found_among_many(backend):
    names = backend.put(*[new_job(b"needle" if n == 5 else b"straw") for n in range(3000)])
    page = backend.scan(limit=2, body_regex="needle")
    assert [record.descriptor for record in page.jobs] == [names[5]]
    assert page.position is None


@pytest.mark.parametrize("run_after_ms", [-(2**63), 2**63 - 1])
def test_jobs_at_the_ends_of_time_are_found(backend, run_after_ms):
    names = backend.put(*[new_job(run_after_ms=run_after_ms, priority=n) for n in (1, 2, 3)])
    assert _pages(backend, PENDING, 1) == (names[::-1], 3)


def test_an_empty_queue_has_one_empty_page(backend):
    assert backend.scan()[:2] == ([], None)


def test_another_queue_is_not_scanned(backend):
    backend.create_queue("thumbnails")
    backend.put_one(queue="thumbnails")
    assert backend.scan().jobs == []
    assert len(backend.scan(queue="thumbnails").jobs) == 1
    assert backend.scan(FAILED, queue=QUEUE).jobs == []


def test_no_jobs_wanted(backend):
    backend.put(new_job(), new_job())
    assert backend.scan(limit=0).jobs == []
