"""The stores that have to keep the contract: a new one joins by one entry in ``HOMES``."""

import shutil

import pytest

from pinlater.server.backends.sqlite import SqliteBackend
from tests.support.bench import QUEUE, Bench

PRIORITY_LEVELS = 3


class SqliteHome:
    """A folder of its own for each test; sync is off, since no test here cuts the power."""

    def __init__(self, folder):
        self._folder = folder
        self._lives = 0

    @property
    def _data_dir(self):
        return self._folder / f"life{self._lives}"

    def open(self, clock):
        return SqliteBackend(
            self._data_dir,
            priority_levels=PRIORITY_LEVELS,
            now_ms=clock,
            synchronous="OFF",
            count_limit=50,
            regex_seconds=0.3,
        )

    def lose(self):
        """A copy of the files of an open store is what the next process finds after a crash."""
        left = self._data_dir
        self._lives += 1
        shutil.copytree(left, self._data_dir)


HOMES = {"sqlite": SqliteHome}
"""Name of a store -> makes its home from an empty folder."""


@pytest.fixture(params=HOMES)
def home_kind(request):
    return HOMES[request.param]


@pytest.fixture
def backend(home_kind, tmp_path):
    """A bench with an empty queue."""
    bench = Bench(home_kind(tmp_path / "store"))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()
