"""A fleet of three shards."""

import pytest

from tests.support.bench import QUEUE
from tests.unit.server.backends.sharded.fake_shards import FleetBench


@pytest.fixture
def fleet():
    bench = FleetBench()
    bench.create_queue(QUEUE)
    bench.asked.clear()
    yield bench
    bench.end()
