"""The store that the settings choose; a store's driver is imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pinlater.errors import ConfigError
from pinlater.server.backends.contract import Backend, CommitStats
from pinlater.server.backends.fleet import FleetBackend, Shard, ShardSpec, StoreClock
from pinlater.server.backends.sqlite import SqliteBackend
from pinlater.server.clock import SteadyClock
from pinlater.server.metrics import Metrics
from pinlater.server.settings import Settings
from pinlater.server.watched_file import WatchedFile


class ServerBackend(Backend, Protocol):
    """A store, and what a server shows of it."""

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""


class Store(NamedTuple):
    """A store that was opened.

    Attributes:
        backend: its verbs.
        now_ms: its clock.
        tasks: what has to run beside it.
        description: for the log.
    """

    backend: ServerBackend
    now_ms: Callable[[], int]
    tasks: Sequence[Coroutine[Any, Any, Any]]
    description: str


class _Kind(NamedTuple):
    """A kind of shards: how their file is read, and how one of them is made."""

    read: Callable[[bytes, Path], list[ShardSpec]]
    make: Callable[[ShardSpec], Shard]


async def open_store(settings: Settings, metrics: Metrics) -> Store:
    """Open the store.

    Raises:
        ConfigError: a file of it cannot be used, or its driver is not installed.
    """
    if settings.backend == "sqlite" or settings.shards_file is None:
        return _open_sqlite(settings, metrics)
    return await _open_fleet(settings, settings.shards_file, metrics)


def _on_commit(metrics: Metrics) -> Callable[[CommitStats], None]:
    def on_commit(stats: CommitStats) -> None:
        metrics.commit_requests.observe((), stats.requests)
        metrics.commit_seconds.observe((), stats.seconds)

    return on_commit


def _open_sqlite(settings: Settings, metrics: Metrics) -> Store:
    clock = SteadyClock()
    backend = SqliteBackend(
        settings.data_dir,
        priority_levels=settings.priority_levels,
        now_ms=clock.now_ms,
        synchronous=settings.sqlite_synchronous,
        count_limit=settings.count_limit,
        regex_seconds=settings.regex_timeout_seconds,
        on_commit=_on_commit(metrics),
    )
    return Store(backend, clock.now_ms, (), str(settings.data_dir))


async def _open_fleet(settings: Settings, file: Path, metrics: Metrics) -> Store:
    clock = StoreClock()
    kind = _FLEETS[settings.backend](settings, clock.now_ms, metrics)
    backend = FleetBackend(settings.backend, kind.make)
    watched = WatchedFile(file, lambda content: backend.update(kind.read(content, file)))
    watched.load()
    await backend.learn_time(clock)
    return Store(
        backend, clock.now_ms, (watched.watch(), backend.follow_time(clock)), f"{settings.backend}, shards of {file}"
    )


def _mysql(settings: Settings, now_ms: Callable[[], int], metrics: Metrics) -> _Kind:
    try:
        from pinlater.server.backends.mysql import Options, ShardMaker, read_shards
    except ImportError as error:
        raise _driver_missing("mysql", error) from None

    def read(content: bytes, file: Path) -> list[ShardSpec]:
        return read_shards(content, file, prefix=settings.shard_prefix, databases=settings.databases_per_shard)

    options = Options(
        settings.priority_levels,
        now_ms,
        settings.count_limit,
        settings.regex_timeout_seconds,
        _on_commit(metrics),
    )
    return _Kind(
        read,
        ShardMaker(options, connections=settings.connections_per_server, database_prefix=settings.database_prefix),
    )


def _redis(settings: Settings, _: Callable[[], int], __: Metrics) -> _Kind:
    try:
        from pinlater.server.backends.redis import Place, RedisShard, read_shards
    except ImportError as error:
        raise _driver_missing("redis", error) from None

    def make(spec: ShardSpec) -> RedisShard:
        if not isinstance(spec.place, Place):
            raise TypeError(f"{spec.place!r} is no place of a Redis shard")
        return RedisShard(
            spec.name,
            spec.place,
            priority_levels=settings.priority_levels,
            count_limit=settings.count_limit,
            regex_seconds=settings.regex_timeout_seconds,
        )

    return _Kind(read_shards, make)


def _driver_missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"PINLATER_BACKEND={extra} needs packages that are not installed ({error}); "
        f"install them: pip install 'pinlater[{extra}]'"
    )


_FLEETS: dict[str, Callable[[Settings, Callable[[], int], Metrics], _Kind]] = {"mysql": _mysql, "redis": _redis}
"""Kind of shards -> what is peculiar to it."""
