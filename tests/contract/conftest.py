"""The stores that have to keep the contract: a new one joins by one entry in ``HOMES``."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import pytest

from pinlater.server.backends.mysql import MysqlOptions, MysqlShardFactory
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.sharded import ShardedStore, ShardSpec
from pinlater.server.backends.sqlite import SqliteStore
from tests.support.bench import QUEUE, Bench
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import fresh_prefix, place_of
from tests.support.redis_service import RedisService

PRIORITY_LEVELS = 3
SEARCH_SECONDS = 1.5
"""Long enough for simple patterns on a busy machine."""


class SqliteHome:
    """A folder of its own for each test; sync is off, since no test here cuts the power."""

    def __init__(self, folder):
        self._folder = folder
        self._lives = 0

    @property
    def _data_dir(self):
        return self._folder / f"life{self._lives}"

    def open(self, clock):
        return SqliteStore(
            self._data_dir,
            priority_levels=PRIORITY_LEVELS,
            now_ms=clock,
            synchronous="OFF",
            count_limit=50,
            regex_seconds=SEARCH_SECONDS,
        )

    def lose(self):
        """A copy of the files of an open store is what the next process finds after a crash."""
        left = self._data_dir
        self._lives += 1
        shutil.copytree(left, self._data_dir)


@functools.cache
def _redis_service():
    """One for all tests of this process."""
    folder = tempfile.mkdtemp(prefix="pinlater-redis-")
    service = RedisService(Path(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(service.close)
    return service


class RedisHome:
    """An empty database for each test; it lives on when the process that uses it dies."""

    def __init__(self, folder):
        self._service = _redis_service()
        with self._service.client() as client:
            client.flushall()

    def open(self, clock):
        backend = ShardedStore("redis", functools.partial(_redis_shard, clock))
        backend.update([ShardSpec("1", RedisEndpoint(("127.0.0.1", self._service.port)))])
        return backend

    def lose(self):
        pass


def _redis_shard(clock, spec):
    return RedisShard(
        spec.name,
        spec.place,
        priority_levels=PRIORITY_LEVELS,
        count_limit=50,
        regex_seconds=SEARCH_SECONDS,
        now_ms=clock,
    )


class MysqlHome:
    """A database of its own for each test, on a server that all share."""

    def __init__(self, folder):
        self._place = place_of(shared_service())
        self._prefix = fresh_prefix()

    def open(self, clock):
        options = MysqlOptions(PRIORITY_LEVELS, clock, count_limit=50, regex_seconds=SEARCH_SECONDS)
        self._maker = MysqlShardFactory(options, connections=8, database_prefix=self._prefix)
        fleet = ShardedStore("mysql", self._maker)
        fleet.update([ShardSpec("1", self._place)])
        return fleet

    def lose(self):
        """A process that ends cuts its connections; the server has what was committed."""
        for pool in self._maker.pools:
            pool.close()


HOMES = {"sqlite": SqliteHome, "mysql": MysqlHome, "redis": RedisHome}
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
