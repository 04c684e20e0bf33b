"""Failure groups over two shards: each keeps those of its own jobs, and together they are one store."""

import random

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, PENDING
from tests.contract.test_failure_groups import LATE, REFUSED, _check, _do, failing, groups
from tests.support.bench import QUEUE, Bench
from tests.support.stores import HOMES

OPERATIONS = (
    "put",
    "put",
    "take",
    "ack",
    "fail",
    "fail",
    "fail_finally",
    "give_back",
    "retry",
    "cancel",
    "now",
    "advance",
)


@pytest.fixture(scope="module", params=[name for name in HOMES if "two shards" in name])
def shards(request, tmp_path_factory):
    bench = Bench(HOMES[request.param](tmp_path_factory.mktemp("store") / "store"))
    yield bench
    bench.end()


@pytest.fixture
def backend(shards):
    for queue in shards.queue_names():
        shards.delete_queue(queue)
    shards.collect_finished(0, 0, 10_000)
    shards.create_queue(QUEUE)
    return shards


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


def test_they_agree_with_the_jobs_whatever_is_done(backend):
    chance, names = random.Random(5), []
    for _ in range(80):
        _do(backend, chance, chance.choice(OPERATIONS), names)
    _check(backend, names)
