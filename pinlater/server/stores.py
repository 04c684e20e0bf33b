"""The store that the settings choose; a store's driver is imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pinlater.errors import ConfigError
from pinlater.server.backends.job_notifications import Arrivals
from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.sharded import Shard, ShardedStore, ShardSpec, StoreClock
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.store import LOOK_OFTEN, LookPauses, ObservedStore
from pinlater.server.backends.token_bucket import TakeTokens
from pinlater.server.clock import SteadyClock
from pinlater.server.config.settings import Settings
from pinlater.server.config.watched_file import WatchedFile
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.shards import ShardCalls


class OpenedStore(NamedTuple):
    """A store that was opened.

    Attributes:
        backend: its verbs.
        now_ms: its clock.
        tasks: what has to run beside it.
        description: for the log.
        arrivals: tell of jobs that other servers made claimable.
        tells_servers: whether they do so at once, also between the processes of one server.
        take_tokens: takes tokens of queues with a rate; None: only this process hands out jobs, and knows by itself.
    """

    backend: ObservedStore
    now_ms: Callable[[], int]
    tasks: Sequence[Coroutine[Any, Any, Any]]
    description: str
    arrivals: Arrivals
    tells_servers: bool
    take_tokens: TakeTokens | None = None


class _Surroundings(NamedTuple):
    """What shards are made with: settings, who is told of batches, and of jobs of others."""

    settings: Settings
    on_commit: Callable[[CommitStats], None]
    arrivals: Arrivals


class _Kind(NamedTuple):
    """A kind of shards: how their file is read, how one of them is made.

    ``look_pauses`` is as in ``Capabilities``, ``tells_servers`` as in ``OpenedStore``.
    """

    read: Callable[[bytes, Path], list[ShardSpec]]
    make: Callable[[ShardSpec], Shard]
    look_pauses: LookPauses
    tells_servers: bool


async def open_store(settings: Settings, metrics: Metrics) -> OpenedStore:
    """Open the store.

    Raises:
        ConfigError: a file of it cannot be used, or its driver is not installed.
    """
    if settings.backend == "sqlite" or settings.shards_file is None:
        return _open_sqlite(settings, metrics)
    return await _open_fleet(settings, settings.shards_file, metrics)


def _on_commit(metrics: Metrics) -> Callable[[CommitStats], None]:
    def on_commit(stats: CommitStats) -> None:
        if stats.claims_undone:
            metrics.claims_undone.add((), stats.claims_undone)
        if stats.is_failed:
            metrics.commits_failed.add()
            return
        metrics.commit_requests.observe((), stats.requests)
        metrics.commit_seconds.observe((), stats.seconds)

    return on_commit


def _open_sqlite(settings: Settings, metrics: Metrics) -> OpenedStore:
    clock = SteadyClock()
    backend = SqliteStore(
        settings.data_dir,
        priority_levels=settings.priority_levels,
        now_ms=clock.now_ms,
        synchronous=settings.sqlite_synchronous,
        count_limit=settings.count_limit,
        regex_seconds=settings.regex_timeout_seconds,
        on_commit=_on_commit(metrics),
    )
    tasks = (backend.files.run(), backend.writes.run())
    return OpenedStore(backend, clock.now_ms, tasks, str(settings.data_dir), Arrivals(), tells_servers=True)


async def _open_fleet(settings: Settings, file: Path, metrics: Metrics) -> OpenedStore:
    clock, arrivals, calls = StoreClock(), Arrivals(), ShardCalls(metrics)
    kind = _FLEETS[settings.backend](_Surroundings(settings, _on_commit(metrics), arrivals))
    backend = ShardedStore(settings.backend, kind.make, look_pauses=kind.look_pauses, on_call=calls.note)

    def take(content: bytes) -> None:
        specs = kind.read(content, file)
        calls.follow(spec.name for spec in specs)
        backend.update(specs)

    watched = WatchedFile(file, take)
    watched.load()
    await backend.learn_time(clock)
    tasks = (watched.watch(), backend.follow_time(clock))
    return OpenedStore(
        backend,
        clock.now_ms,
        tasks,
        f"{settings.backend}, shards of {file}",
        arrivals,
        kind.tells_servers,
        backend.take_tokens,
    )


def _mysql(around: _Surroundings) -> _Kind:
    settings = around.settings
    try:
        from pinlater.server.backends.mysql import Options, ShardMaker, read_shards
    except ImportError as error:
        raise _driver_missing("mysql", error) from None

    def read(content: bytes, file: Path) -> list[ShardSpec]:
        return read_shards(content, file, prefix=settings.shard_prefix, databases=settings.databases_per_shard)

    options = Options(
        settings.priority_levels,
        count_limit=settings.count_limit,
        regex_seconds=settings.regex_timeout_seconds,
        on_commit=around.on_commit,
        arrivals=around.arrivals,
    )
    return _Kind(
        read,
        ShardMaker(options, connections=settings.connections_per_server, database_prefix=settings.database_prefix),
        look_pauses=LOOK_OFTEN,
        tells_servers=False,
    )


def _redis(around: _Surroundings) -> _Kind:
    settings = around.settings
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
            on_commit=around.on_commit,
            arrivals=around.arrivals,
        )

    # Servers tell each other; to look is for what gets lost.
    return _Kind(read_shards, make, look_pauses=LookPauses(2.0, 20.0), tells_servers=True)


def _driver_missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"PINLATER_BACKEND={extra} needs packages that are not installed ({error}); "
        f"install them: pip install 'pinlater[{extra}]'"
    )


_FLEETS: dict[str, Callable[[_Surroundings], _Kind]] = {"mysql": _mysql, "redis": _redis}
"""Kind of shards -> what is peculiar to it."""
