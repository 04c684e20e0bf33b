"""The store that has to keep the contract: each in turn."""

import pytest

from tests.support.bench import QUEUE, START_MS, Bench
from tests.support.families import OTHER
from tests.support.stores import STORES
from tests.support.woken import Woken


@pytest.fixture(autouse=True)
def _patient(patience):
    """The time limits of calls have tests of their own."""


@pytest.fixture(scope="module", params=STORES)
def home_kind(request):
    return STORES[request.param].home


@pytest.fixture(scope="module")
def _shared_bench(home_kind, tmp_path_factory):
    bench = Bench(home_kind(tmp_path_factory.mktemp("store") / "store"))
    yield bench
    bench.end()


@pytest.fixture
def backend(_shared_bench):
    """A bench with an empty queue; the tests of a module share a store, and what earlier ones have stored is deleted.

    To make a store takes much longer than most tests.
    """
    for queue in _shared_bench.queue_names():
        _shared_bench.delete_queue(queue)
    _shared_bench.collect_finished(0, 0, 10_000)
    _shared_bench.clock.now_ms = START_MS
    _shared_bench.create_queue(QUEUE)
    return _shared_bench


@pytest.fixture
def new_backend(home_kind, tmp_path):
    """A bench with an empty queue, on a store of its own: beside queues with their jobs, a store has other things."""
    bench = Bench(home_kind(tmp_path / "store"))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()


@pytest.fixture
def other_queue(backend):
    """A second queue."""
    backend.create_queue(OTHER)


@pytest.fixture
def woken(backend):
    return Woken(backend)
