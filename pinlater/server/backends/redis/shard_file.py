"""The shard file of Redis shards: the JSON format of the original service, with more ways to connect."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pinlater.errors import ConfigError
from pinlater.server.backends.redis.endpoint import Address, RedisEndpoint
from pinlater.server.backends.sharded import ShardSpec
from pinlater.server.backends.tls_files import TlsFiles, tls_files

_EXAMPLE = '{"shards": [{"name": "1", "shardConfig": {"master": {"host": "redis1", "port": 6379}}}]}'
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


class _RedisAddress(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    port: int

    def address(self) -> Address:
        return self.host, self.port


class _Sentinel(msgspec.Struct, forbid_unknown_fields=True):
    service: str
    nodes: list[_RedisAddress]
    passwd: str | None = None


class _ShardConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    master: _RedisAddress | None = None
    slave: _RedisAddress | None = None  # part of the original format, which does not use it either
    dequeue_only: bool = False
    sentinel: _Sentinel | None = None
    db: int = 0
    user: str | None = None
    passwd: str | None = None
    tls: bool | TlsFiles = False


class _ShardEntry(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    shard_config: _ShardConfig


class _ShardFile(msgspec.Struct, forbid_unknown_fields=True):
    shards: list[_ShardEntry]


def read_shards(content: bytes, file: Path) -> list[ShardSpec]:
    """Parse a shard file.

    Raises:
        ConfigError: it does not have the right format, or a value is invalid.
    """
    try:
        entries = msgspec.json.decode(content, type=_ShardFile).shards
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: is not a valid Redis shard file: {error}; write {_EXAMPLE}") from None
    specs = {entry.name: _spec(entry, file) for entry in entries}
    if len(specs) < len(entries):
        raise ConfigError(f"{file}: two shards have the same name; give each shard its own name")
    if not specs:
        raise ConfigError(f"{file}: lists no shard; write {_EXAMPLE}")
    return [*specs.values()]


def _spec(entry: _ShardEntry, file: Path) -> ShardSpec:
    config, where = entry.shard_config, f"{file}: shard {entry.name[:60]!r}"
    if not _NAME.fullmatch(entry.name):
        raise ConfigError(f"{where}: a name is 1 to 64 letters, digits, underscores, dots and hyphens")
    if (config.master is None) == (config.sentinel is None):
        raise ConfigError(f"{where}: needs either a master or a sentinel")
    if config.sentinel is not None and not (config.sentinel.nodes and config.sentinel.service):
        raise ConfigError(f"{where}: its sentinel needs a service and at least one entry in nodes")
    servers = [*(config.sentinel.nodes if config.sentinel else ()), *([config.master] if config.master else ())]
    for server in servers:
        if not server.host or not 1 <= server.port <= 65535:
            raise ConfigError(f"{where}: host {server.host[:60]!r}, port {server.port} is not a valid address")
    tls = tls_files(config.tls)
    for name in (tls.ca, tls.cert, tls.key) if tls else ():
        if name is not None and not Path(name).is_file():
            raise ConfigError(f"{where}: tls: file {name[:200]} does not exist")
    if config.db < 0:
        raise ConfigError(f"{where}: db {config.db} is negative; the first database is 0")
    return ShardSpec(entry.name, _endpoint(config, tls), config.dequeue_only)


def _endpoint(config: _ShardConfig, tls: TlsFiles | None) -> RedisEndpoint:
    sentinel = config.sentinel
    return RedisEndpoint(
        master=config.master.address() if config.master else None,
        sentinels=tuple(node.address() for node in sentinel.nodes) if sentinel else (),
        service=sentinel.service if sentinel else "",
        sentinel_password=sentinel.passwd if sentinel else None,
        db=config.db,
        username=config.user,
        password=config.passwd,
        tls=tls,
    )
