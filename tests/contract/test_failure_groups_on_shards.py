"""Failure groups over two shards: each keeps those of its own jobs, and together they are one store."""

import functools

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, PENDING
from tests.contract.test_failure_groups import LATE, REFUSED, failing, groups
from tests.support.bench import QUEUE
from tests.support.stores import SHARDED_STORES


@pytest.fixture(scope="module", params=SHARDED_STORES)
def home_kind(request):
    return functools.partial(SHARDED_STORES[request.param].home, shards=2)


def test_counts_are_added_up_and_jobs_in_one_order(backend):
    began = backend.clock.now_ms
    given_up = [failing(backend, is_final=True) for _ in range(12)]
    for _ in range(12):
        backend.clock.advance(2000)
        given_up.append(failing(backend, is_final=True))
    retrying = [failing(backend, LATE, retry_delay_ms=10**6) for _ in range(12)]
    assert len({JobDescriptor.parse(name).shard for name in given_up}) == 2
    first, second = backend.failure_groups([QUEUE], 10)
    assert (first.id, first.given_up, first.retrying) == (REFUSED.group, 24, 0)
    assert (first.first_ms, first.last_ms) == (began, backend.clock.now_ms)
    assert (second.id, second.given_up, second.retrying) == (LATE.group, 0, 12)
    assert backend.failure_groups([], 1) == [first]
    assert (backend.count(FAILED, failure_group=REFUSED.group), backend.count(is_retrying=True)) == (24, 12)
    latest_first = [one.descriptor for one in backend.scan(FAILED, failure_group=REFUSED.group).jobs]
    assert sorted(latest_first) == sorted(given_up)
    found, position = [], None
    while not found or position is not None:
        page = backend.scan(FAILED, failure_group=REFUSED.group, limit=5, position=position, oldest_first=True)
        found += [one.descriptor for one in page.jobs]
        position = page.position
    assert found == latest_first[::-1]
    assert sorted(one.descriptor for one in backend.scan(PENDING, is_retrying=True).jobs) == sorted(retrying)
    assert groups(backend, "missing") == {}
