"""All stores that the tests run against: a new one joins by one entry in ``STORES``."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.mysql import MysqlShardFactory
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.sharded import ShardedStore, ShardSpec
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.sqlite.store import FILE_NAME
from pinlater.server.backends.store_options import StoreOptions
from tests.support.fleets import mysql_fleets, redis_fleets
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix
from tests.support.redis_service import shared_redis_service
from tests.support.shared_stores import mysql_settings, redis_settings
from tests.support.store_contents import mysql_contents, redis_contents, sqlite_contents

PRIORITY_LEVELS = 3
SEARCH_SECONDS = 1.5
"""Long enough for simple patterns on a busy machine."""


class SqliteHome:
    """A folder of its own for each test; sync is off, since no test here cuts the power."""

    def __init__(self, folder):
        self._folder = folder
        self._lives = 0
        self.notifications = JobNotifications()

    @property
    def _data_dir(self):
        return self._folder / f"life{self._lives}"

    def open(self, clock):
        return SqliteStore(
            self._data_dir,
            StoreOptions(
                PRIORITY_LEVELS,
                now_ms=clock,
                count_limit=50,
                regex_seconds=SEARCH_SECONDS,
                notifications=self.notifications,
            ),
            synchronous="OFF",
        )

    def contents(self):
        """Return how much is in each part of the store, by name."""
        return sqlite_contents(self._data_dir / FILE_NAME)

    def lose(self):
        """A copy of the files of an open store is what the next process finds after a crash."""
        left = self._data_dir
        self._lives += 1
        shutil.copytree(left, self._data_dir)


class RedisHome:
    """An empty database for each test; it lives on when the process that uses it dies."""

    def __init__(self, folder, shards=1):
        self._names = [str(number + 1) for number in range(shards)]
        self._service = shared_redis_service("stores")
        self.notifications = JobNotifications()
        with self._service.client() as client:
            client.flushall()

    def open(self, clock):
        backend = ShardedStore("redis", functools.partial(_redis_shard, clock, self.notifications))
        place = RedisEndpoint(("127.0.0.1", self._service.port))
        backend.update([ShardSpec(name, place) for name in self._names])
        return backend

    def contents(self):
        """Return how much is in each part of the store, by name."""
        with self._service.client() as client:
            return redis_contents(client)

    def lose(self):
        pass


def _redis_shard(clock, notifications, spec):
    return RedisShard(
        spec.name,
        spec.endpoint,
        StoreOptions(
            PRIORITY_LEVELS, count_limit=50, regex_seconds=SEARCH_SECONDS, now_ms=clock, notifications=notifications
        ),
    )


class MysqlHome:
    """A database of its own for each test, on a server that all share."""

    def __init__(self, folder, shards=1):
        self._names = [str(number + 1) for number in range(shards)]
        self._place = endpoint_of(shared_service())
        self._prefix = fresh_prefix()
        self.notifications = JobNotifications()

    def open(self, clock):
        options = StoreOptions(
            PRIORITY_LEVELS, clock, count_limit=50, regex_seconds=SEARCH_SECONDS, notifications=self.notifications
        )
        self._factory = MysqlShardFactory(options, connections=8, database_prefix=self._prefix)
        fleet = ShardedStore("mysql", self._factory)
        fleet.update([ShardSpec(name, self._place) for name in self._names])
        return fleet

    def contents(self):
        """Return how much is in each part of the store, by name."""
        return mysql_contents(self._place, self._prefix)

    def lose(self):
        """A process that ends cuts its connections; the server has what was committed."""
        for pool in self._factory.pools:
            pool.close()


class StoreKind(NamedTuple):
    """How the tests get an empty store of one kind, each time another one.

    Attributes:
        home: takes a folder; returns what ``Bench`` opens. With it, ``tests/contract`` runs.
        settings: takes a folder; returns what a server program needs beside its own settings.
        fleets: takes a folder and names of shards; returns what opens the store for one more server, and what ends
            all. None: the store has one server and no shards.
    """

    home: Callable[[Path], Any]
    settings: Callable[..., dict[str, Any]]
    fleets: Callable[..., Any] | None


STORES = {
    "sqlite": StoreKind(SqliteHome, lambda _: {}, None),
    "mysql": StoreKind(MysqlHome, mysql_settings, mysql_fleets),
    "redis": StoreKind(RedisHome, redis_settings, redis_fleets),
}
"""Name, as in PINLATER_BACKEND -> the store."""

SHARDED_STORES = {name: kind for name, kind in STORES.items() if kind.fleets is not None}

SHARED_STORES = {name: kind.settings for name, kind in SHARDED_STORES.items()}
"""Name -> makes the settings of a server on an empty store that other servers may share, given a folder."""

HOMES = {
    **{name: kind.home for name, kind in STORES.items()},
    **{f"{name}, two shards": functools.partial(kind.home, shards=2) for name, kind in SHARDED_STORES.items()},
}
"""What ``Bench`` opens, also with two shards where a store can have them."""

KEYED_HOMES = HOMES
"""Those of stores that take jobs with keys."""

KEYED_SETTINGS = {name: kind.settings for name, kind in STORES.items() if name in KEYED_HOMES}
"""Name -> makes the settings of a server on such a store, given a folder."""
