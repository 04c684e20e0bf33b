"""The file of shards: the original service's JSON, with more ways to get in."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pinlater.errors import ConfigError
from pinlater.server.backends.redis.endpoint import Address, Place, Tls
from pinlater.server.backends.sharded import ShardSpec

_EXAMPLE = '{"shards": [{"name": "1", "shardConfig": {"master": {"host": "redis1", "port": 6379}}}]}'
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


class _Server(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    port: int

    def address(self) -> Address:
        return self.host, self.port


class _Sentinel(msgspec.Struct, forbid_unknown_fields=True):
    service: str
    nodes: list[_Server]
    passwd: str | None = None


class _Tls(msgspec.Struct, forbid_unknown_fields=True):
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class _Config(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    master: _Server | None = None
    slave: _Server | None = None  # of the original's form; it has no use there either
    dequeue_only: bool = False
    sentinel: _Sentinel | None = None
    db: int = 0
    user: str | None = None
    passwd: str | None = None
    tls: bool | _Tls = False


class _Shard(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    shard_config: _Config


class _Shards(msgspec.Struct, forbid_unknown_fields=True):
    shards: list[_Shard]


def read_shards(content: bytes, file: Path) -> list[ShardSpec]:
    """Return the shards that a file names.

    Raises:
        ConfigError: it is not of the format, or cannot be meant.
    """
    try:
        shards = msgspec.json.decode(content, type=_Shards).shards
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: is not a file of Redis shards: {error}; write {_EXAMPLE}") from None
    specs = {shard.name: _spec(shard, file) for shard in shards}
    if len(specs) < len(shards):
        raise ConfigError(f"{file}: a shard's name stands there twice; give each a name of its own")
    if not specs:
        raise ConfigError(f"{file}: names no shard; write {_EXAMPLE}")
    return [*specs.values()]


def _spec(shard: _Shard, file: Path) -> ShardSpec:
    config, where = shard.shard_config, f"{file}: shard {shard.name[:60]!r}"
    if not _NAME.fullmatch(shard.name):
        raise ConfigError(f"{where}: a name is 1 to 64 letters, digits and the signs _ . -")
    if (config.master is None) == (config.sentinel is None):
        raise ConfigError(f"{where}: needs either a master or a sentinel")
    if config.sentinel is not None and not (config.sentinel.nodes and config.sentinel.service):
        raise ConfigError(f"{where}: its sentinel needs a service and at least one of nodes")
    servers = [*(config.sentinel.nodes if config.sentinel else ()), *([config.master] if config.master else ())]
    for server in servers:
        if not server.host or not 1 <= server.port <= 65535:
            raise ConfigError(f"{where}: {server.host[:60]!r} port {server.port} is no address")
    for name in (config.tls.ca, config.tls.cert, config.tls.key) if isinstance(config.tls, _Tls) else ():
        if name is not None and not Path(name).is_file():
            raise ConfigError(f"{where}: tls: there is no file {name[:200]}")
    if config.db < 0:
        raise ConfigError(f"{where}: db {config.db} is negative; the first one is 0")
    return ShardSpec(shard.name, _place(config), config.dequeue_only)


def _place(config: _Config) -> Place:
    sentinel = config.sentinel
    return Place(
        master=config.master.address() if config.master else None,
        sentinels=tuple(node.address() for node in sentinel.nodes) if sentinel else (),
        service=sentinel.service if sentinel else "",
        sentinel_password=sentinel.passwd if sentinel else None,
        db=config.db,
        username=config.user,
        password=config.passwd,
        tls=_tls(config.tls),
    )


def _tls(wanted: bool | _Tls) -> Tls | None:
    if isinstance(wanted, _Tls):
        return Tls(wanted.ca, wanted.cert, wanted.key)
    return Tls() if wanted else None
