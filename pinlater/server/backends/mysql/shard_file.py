"""The shard file of a MySQL store, in the JSON format of the original service.

::

    {"pinlaterdb001": {"master": {"host": "db1", "port": 3306}, "slave": {"host": "db2", "port": 3306},
                       "user": "pinlater", "passwd": "...", "dequeueOnly": false}}

The number at the end of a key is the shard's number. Keys without the prefix are ignored, and ``slave`` is accepted but
not used. ``tls`` is an addition: ``true``, or files, as in ``{"ca": "ca.pem", "cert": "our.pem", "key": "our.key"}``.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pinlater.errors import ConfigError
from pinlater.server.backends.mysql.connection import MysqlEndpoint
from pinlater.server.backends.sharded import ShardSpec
from pinlater.server.backends.tls_files import TlsFiles, tls_context, tls_files

_EXAMPLE = '{"shard001": {"master": {"host": "127.0.0.1", "port": 3306}, "user": "pinlater", "passwd": "..."}}'
_KEY = re.compile(r".*?(\d{1,9})")


class _MysqlAddress(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    port: int = 3306


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    master: _MysqlAddress
    user: str
    passwd: str = ""
    slave: _MysqlAddress | None = None
    dequeueOnly: bool = False  # noqa: N815 - the format's name
    tls: bool | TlsFiles = False


def read_shards(content: bytes, file: Path, *, prefix: str, databases: int) -> list[ShardSpec]:
    """Parse a shard file.

    Args:
        content: content of the file.
        file: name of the file, for errors.
        prefix: prefix of the keys that are shards.
        databases: shards per entry: the first is named by the entry's number, shard ``k`` after it has ``d<k>`` added.

    Raises:
        ConfigError: the file is not in the format, has no shard, or has two shards with the same number.
    """
    try:
        entries = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        wanted = {key: msgspec.json.decode(raw, type=_Entry) for key, raw in entries.items() if key.startswith(prefix)}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: is not a valid MySQL shard file: {error}; write {_EXAMPLE}") from None
    shards: dict[str, ShardSpec] = {}
    for key, entry in wanted.items():
        number = _number(key, prefix, file)
        for spec in _shards(number, entry, databases, file):
            if spec.name in shards:
                raise ConfigError(f"{file}: two keys end with the shard number {number}; keep one of them")
            shards[spec.name] = spec
    if not shards:
        fault = f"has no key that starts with {prefix!r}" if prefix else "names no shard"
        raise ConfigError(f"{file}: {fault}; write {_EXAMPLE}")
    return list(shards.values())


def _number(key: str, prefix: str, file: Path) -> int:
    match = _KEY.fullmatch(key.removeprefix(prefix))
    if match is None or (prefix and key.removeprefix(prefix) != match[1]):
        raise ConfigError(
            f"{file}: key {key[:60]!r} does not end with the number of a shard; write, for example, {prefix}001"
        )
    return int(match[1])


def _shards(number: int, entry: _Entry, databases: int, file: Path) -> list[ShardSpec]:
    tls = tls_files(entry.tls)
    if not 1 <= entry.master.port <= 65535:
        raise ConfigError(f"{file}: shard {number}: {entry.master.port} is not a valid port; write, for example, 3306")
    if tls:
        try:
            tls_context(tls)
        except OSError as error:
            raise ConfigError(f"{file}: shard {number}: the files in tls cannot be used: {error}") from None
    endpoint = MysqlEndpoint(entry.master.host, entry.master.port, entry.user, entry.passwd, tls)
    names = [str(number), *(f"{number}d{database}" for database in range(1, databases))]
    return [ShardSpec(name, endpoint, entry.dequeueOnly) for name in names]
