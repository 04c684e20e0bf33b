"""The store that has to keep the contract: each in turn."""

import pytest

from tests.support.bench import QUEUE, Bench
from tests.support.stores import STORES


@pytest.fixture(params=STORES)
def home_kind(request):
    return STORES[request.param].home


@pytest.fixture
def backend(home_kind, tmp_path):
    """A bench with an empty queue."""
    bench = Bench(home_kind(tmp_path / "store"))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()
