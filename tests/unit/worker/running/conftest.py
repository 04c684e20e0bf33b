"""A runner of jobs, without a worker around it."""

import pytest

from tests.unit.worker.running.runner_bench import Bench, seen


@pytest.fixture
def bench():
    seen.clear()
    bench = Bench()
    yield bench
    bench.runner.close()
