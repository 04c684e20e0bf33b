"""Statistics: counts that add up in the store, by period, queue and name, and expire."""

import pytest

from pinlater.model.statistics import HOUR, KEPT_SECONDS, MINUTE, StatisticsKind
from pinlater.server.backends.statistics import StatisticsEntry, StatisticsKey, StatisticsQuery
from tests.support.bench import START_MS
from tests.support.redis_service import shared_redis_service
from tests.support.stores import HOMES, RedisHome

QUEUE, CLASS, FAILURE = StatisticsKind
MINUTE_MS, HOUR_MS = 1000 * MINUTE, 1000 * HOUR
NOW_MS = START_MS // HOUR_MS * HOUR_MS
EVER = 10**6


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


@pytest.fixture
def backend(backend, request):
    """A store in which each test has queues of its own, and the same time."""
    backend.clock.now_ms = NOW_MS
    backend.mark = f"q{abs(hash(request.node.name)) % 10**9}_"
    return backend


def entry(backend, counts, *, queue="a", name="", kind=QUEUE, resolution=MINUTE, start_ms=NOW_MS):
    key = StatisticsKey(resolution, start_ms, int(kind), backend.mark + queue, name)
    return StatisticsEntry(key, counts)


def read(backend, queues=("a",), *, kind=QUEUE, resolution=MINUTE, first_ms=NOW_MS, periods=1, name=None, limit=EVER):
    end_ms = first_ms + periods * resolution * 1000
    names = [backend.mark + queue for queue in queues]
    found = backend.read_statistics(StatisticsQuery(int(kind), resolution, first_ms, end_ms, names, name), limit)
    return [(key.start_ms, key.queue.removeprefix(backend.mark), key.name, dict(counts)) for key, counts in found]


def test_counts_add_up(backend):
    backend.add_statistics([entry(backend, {0: 3, 105: 1})])
    backend.add_statistics([entry(backend, {0: 2**40, 1: 7, 255: 1}), entry(backend, {2: 1}, queue="b")])
    assert read(backend) == [(NOW_MS, "a", "", {0: 3 + 2**40, 1: 7, 105: 1, 255: 1})]
    assert read(backend, ["b", "missing", "a"])[1:] == [(NOW_MS, "b", "", {2: 1})]


def test_periods_and_kinds_are_apart(backend):
    other = {"start_ms": NOW_MS + MINUTE_MS}
    given = [
        entry(backend, {0: 1}),
        entry(backend, {0: 2}, **other),
        entry(backend, {0: 3}, resolution=HOUR),
        entry(backend, {0: 4}, kind=CLASS, name="Mail"),
        entry(backend, {0: 5}, kind=FAILURE, name="Mail"),
    ]
    backend.add_statistics(given)
    assert read(backend, periods=5) == [(NOW_MS, "a", "", {0: 1}), (NOW_MS + MINUTE_MS, "a", "", {0: 2})]
    assert read(backend, first_ms=NOW_MS + MINUTE_MS) == [(NOW_MS + MINUTE_MS, "a", "", {0: 2})]
    assert read(backend, resolution=HOUR) == [(NOW_MS, "a", "", {0: 3})]
    assert read(backend, kind=CLASS) == [(NOW_MS, "a", "Mail", {0: 4})]
    assert read(backend, kind=FAILURE) == [(NOW_MS, "a", "Mail", {0: 5})]


def test_names_of_a_queue(backend):
    names = ["Mail", "mail", "Ä.b \"'%s\\", "x" * 200]
    backend.add_statistics([entry(backend, {2: 1}, kind=CLASS, name=name) for name in names])
    backend.add_statistics([entry(backend, {3: 1}, kind=CLASS, name="Mail", queue=queue) for queue in "ab"])
    assert {name for _, _, name, _ in read(backend, kind=CLASS)} == set(names)
    assert read(backend, "ab", kind=CLASS, name="Mail") == [
        (NOW_MS, "a", "Mail", {2: 1, 3: 1}),
        (NOW_MS, "b", "Mail", {3: 1}),
    ]
    assert read(backend, kind=CLASS, name="None") == []


@pytest.mark.parametrize("kind", [QUEUE, CLASS])
def test_all_queues_and_the_fleet(backend, kind):
    start = {"start_ms": NOW_MS + 7 * HOUR_MS + 30 * MINUTE_MS, "kind": kind, "name": "n" * (kind == CLASS)}
    fleet = StatisticsEntry(entry(backend, {}, **start).key._replace(queue=""), {0: 9})
    backend.add_statistics([fleet, *(entry(backend, {0: number}, queue=f"all{number}", **start) for number in (1, 2))])
    first_ms = start["start_ms"]

    def queues(*names):
        which = StatisticsQuery(int(kind), MINUTE, first_ms, first_ms + MINUTE_MS, names)
        return [(key.queue, counts) for key, counts in backend.read_statistics(which, EVER)]

    assert queues() == [(f"{backend.mark}all1", {0: 1}), (f"{backend.mark}all2", {0: 2})]
    assert queues("") == [("", {0: 9})]
    assert len(queues("", f"{backend.mark}all1")) == 2


def test_a_day_by_minute_comes_in_order_up_to_a_limit(backend):
    starts = range(NOW_MS - 1440 * MINUTE_MS, NOW_MS, MINUTE_MS)
    for first in range(0, 1440, 200):
        backend.add_statistics([entry(backend, {1: 1}, start_ms=start) for start in starts[first : first + 200]])
    every = read(backend, first_ms=starts[0], periods=1440)
    assert [start for start, *_ in every] == list(starts)
    assert read(backend, first_ms=starts[0], periods=1440, limit=100) == every[:100]


def test_counts_that_arrive_together_all_count(backend):
    def add(number):
        queues = [f"t{queue}" for queue in (range(20) if number % 2 else reversed(range(20)))]
        return backend.backend.add_statistics([entry(backend, {number % 5: 1}, queue=queue) for queue in queues])

    assert backend.together(*(lambda number=number: add(number) for number in range(20))) == [None] * 20
    found = read(backend, [f"t{queue}" for queue in range(20)])
    assert [counts for *_, counts in found] == [dict.fromkeys(range(5), 4)] * 20


def test_counts_survive_a_crash(backend):
    backend.add_statistics([entry(backend, {0: 1})])
    backend.crash()
    assert read(backend) == [(NOW_MS, "a", "", {0: 1})]


def expires_by_itself(backend, resolution):
    backend.add_statistics(
        [entry(backend, {0: 1}, kind=kind, name=str(int(kind)), resolution=resolution) for kind in StatisticsKind]
    )
    with shared_redis_service("stores").client() as client:
        keys = client.keys(f"*:statistics:{resolution}:{NOW_MS}:*")
        assert len(keys) >= 5
        kept = KEPT_SECONDS[resolution] + resolution
        assert all(kept - 60 <= client.ttl(key) <= kept for key in keys)
    assert backend.forget_statistics(10) == 0


@pytest.mark.parametrize("resolution", KEPT_SECONDS)
def test_what_has_expired_goes_some_at_a_time(backend, resolution):
    if isinstance(backend.home, RedisHome):
        expires_by_itself(backend, resolution)
        return
    backend.clock.now_ms += 100 * 24 * HOUR_MS
    while backend.forget_statistics(1000):
        pass
    oldest_ms = backend.clock.now_ms - 1000 * KEPT_SECONDS[resolution]
    for number in range(-25, 5):
        start_ms = oldest_ms + number * resolution * 1000
        backend.add_statistics([entry(backend, {0: 1}, resolution=resolution, start_ms=start_ms)])
    assert backend.forget_statistics(10) == 10
    while backend.forget_statistics(10):
        pass
    first_ms = oldest_ms - 25 * resolution * 1000
    left = read(backend, resolution=resolution, first_ms=first_ms, periods=30)
    assert [start for start, *_ in left] == [oldest_ms + number * resolution * 1000 for number in range(5)]
