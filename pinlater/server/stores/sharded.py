"""Open a store of several shards; the driver of a kind of shards is imported only if that kind is chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pinlater.errors import ConfigError
from pinlater.server.backends.datagram_network import DatagramNetwork
from pinlater.server.backends.listeners import StoreListeners
from pinlater.server.backends.poll_intervals import (
    FREQUENT_POLLS,
    POLLS_BESIDE_DATAGRAMS,
    POLLS_BESIDE_MESSAGES,
    PollIntervals,
)
from pinlater.server.backends.server_network import ServerNetwork
from pinlater.server.backends.sharded import (
    ClockUpdater,
    Shard,
    ShardedStore,
    ShardSpec,
    StoreClock,
    meet_servers,
    poll_all,
)
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.backends.unavailable import StoreUnavailable
from pinlater.server.config.kept_contents import KeptContents
from pinlater.server.config.settings import Settings
from pinlater.server.config.watched_file import WatchedFile
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.shards import ShardCalls
from pinlater.server.stores.opened_store import OpenedStore
from pinlater.server.stores.options import options_of


class _ShardKind(NamedTuple):
    """A kind of shards: how their file is read, and how a shard is made.

    ``poll_intervals`` is as in ``Capabilities``. ``network_of`` returns what is ``network`` in
    ``OpenedStore``, given the store and its first shard. ``polls_all`` is whether one query polls all queues of a
    shard.
    """

    read: Callable[[bytes, Path], list[ShardSpec]]
    make: Callable[[ShardSpec], Shard]
    poll_intervals: PollIntervals
    network_of: Callable[[ShardedStore, ShardSpec], Callable[[str], ServerNetwork]] | None
    polls_all: bool = False


async def open_sharded(settings: Settings, file: Path, metrics: Metrics, kept: KeptContents) -> OpenedStore:
    """Open the store whose shards a file names.

    Raises:
        ConfigError: the file cannot be used, or the driver is not installed.
        StoreUnavailable: what the file names cannot be used at present, such as files for TLS, but was used before.
    """
    clock, options, calls = StoreClock(), options_of(settings, metrics), ShardCalls(metrics)
    kind = _SHARD_KINDS[settings.backend](settings, options)
    backend = ShardedStore(
        settings.backend,
        kind.make,
        poll_intervals=kind.poll_intervals,
        now_ms=clock.now_ms,
        on_call=calls.note,
    )

    specs: list[ShardSpec] = []

    def update(content: bytes) -> None:
        specs[:] = kind.read(content, file)
        calls.follow(spec.name for spec in specs)
        backend.update(specs)

    watched = WatchedFile(file, update, kept=kept)
    try:
        watched.load()
    except ConfigError as error:
        if kept.last(file) is None:
            raise
        raise StoreUnavailable(str(error)) from error
    backend.group.registry.look_for_changes = watched.check
    clock_updater = ClockUpdater(backend.group, clock)
    await clock_updater.update()
    tasks = (watched.watch(), clock_updater.run())
    return OpenedStore(
        backend,
        tasks,
        f"{settings.backend}, shards of {file}",
        options.notifications,
        kind.network_of(backend, specs[0]) if kind.network_of is not None else None,
        backend.acquire_tokens,
        partial(poll_all, backend.group) if kind.polls_all else None,
    )


def _datagrams(backend: ShardedStore, first: ShardSpec) -> Callable[[str], ServerNetwork]:
    endpoint: Any = first.endpoint
    listeners = StoreListeners((endpoint.host, endpoint.port), partial(meet_servers, backend.group))
    return partial(DatagramNetwork, listeners)


def _mysql(settings: Settings, options: StoreOptions) -> _ShardKind:
    try:
        from pinlater.server.backends.mysql import MysqlShardFactory, read_shards
    except ImportError as error:
        raise _driver_missing("mysql", error) from None

    def read(content: bytes, file: Path) -> list[ShardSpec]:
        return read_shards(content, file, prefix=settings.shard_prefix, databases=settings.databases_per_shard)

    return _ShardKind(
        read,
        MysqlShardFactory(
            options, connections=settings.connections_per_server, database_prefix=settings.database_prefix
        ),
        poll_intervals=POLLS_BESIDE_DATAGRAMS if settings.notify_servers else FREQUENT_POLLS,
        network_of=_datagrams if settings.notify_servers else None,
        polls_all=True,
    )


def _redis(_: Settings, options: StoreOptions) -> _ShardKind:
    try:
        from pinlater.server.backends.redis import RedisEndpoint, RedisShard, ServerChannels, read_shards
    except ImportError as error:
        raise _driver_missing("redis", error) from None
    channels = ServerChannels()

    def make(spec: ShardSpec) -> RedisShard:
        if not isinstance(spec.endpoint, RedisEndpoint):
            raise TypeError(f"{spec.endpoint!r} is not the endpoint of a Redis shard")
        return RedisShard(spec.name, spec.endpoint, options, channels)

    return _ShardKind(
        read_shards,
        make,
        poll_intervals=POLLS_BESIDE_MESSAGES,
        network_of=lambda _backend, _first: channels.of,
    )


def _driver_missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"PINLATER_BACKEND={extra} needs packages that are not installed ({error}); "
        f"install them: pip install 'pinlater[{extra}]'"
    )


_SHARD_KINDS: dict[str, Callable[[Settings, StoreOptions], _ShardKind]] = {"mysql": _mysql, "redis": _redis}
"""Name, as in PINLATER_BACKEND -> the kind of shards."""
