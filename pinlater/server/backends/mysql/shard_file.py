"""The JSON file of MySQL shards, in the form of the original service.

::

    {"pinlaterdb001": {"master": {"host": "db1", "port": 3306}, "slave": {"host": "db2", "port": 3306},
                       "user": "pinlater", "passwd": "...", "dequeueOnly": false}}

The number at the end of a key is the shard's; other keys than those with the prefix are ignored, and ``slave`` is
accepted and not used. ``tls`` is ours: ``true``, or files, as in
``{"ca": "ca.pem", "cert": "our.pem", "key": "our.key"}``.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pinlater.errors import ConfigError
from pinlater.server.backends.mysql.endpoint import Place, Tls, tls_context
from pinlater.server.backends.sharded import ShardSpec

_EXAMPLE = '{"shard001": {"master": {"host": "127.0.0.1", "port": 3306}, "user": "pinlater", "passwd": "..."}}'
_KEY = re.compile(r".*?(\d{1,9})")


class _Address(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    port: int = 3306


class _Tls(msgspec.Struct, forbid_unknown_fields=True):
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    master: _Address
    user: str
    passwd: str = ""
    slave: _Address | None = None
    dequeueOnly: bool = False  # noqa: N815 - the format's name
    tls: bool | _Tls = False


def read_shards(content: bytes, file: Path, *, prefix: str, databases: int) -> list[ShardSpec]:
    """Return the shards of a file; the place of each is that of its server.

    Args:
        content: of the file.
        file: its name, for errors.
        prefix: of the keys that are shards.
        databases: shards that each entry has: number 0 is called by the entry's number, ``k`` has ``d<k>`` behind it.

    Raises:
        ConfigError: it is not of the format, has no shard, or two of one number.
    """
    try:
        entries = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        wanted = {key: msgspec.json.decode(raw, type=_Entry) for key, raw in entries.items() if key.startswith(prefix)}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: is not a file of MySQL shards: {error}; write {_EXAMPLE}") from None
    shards: dict[str, ShardSpec] = {}
    for key, entry in wanted.items():
        number = _number(key, prefix, file)
        for spec in _shards(number, entry, databases, file):
            if spec.name in shards:
                raise ConfigError(f"{file}: shard {number} stands there twice; keep one of them")
            shards[spec.name] = spec
    if not shards:
        raise ConfigError(f"{file}: has no shard whose key begins with {prefix!r}; write {_EXAMPLE}")
    return list(shards.values())


def _number(key: str, prefix: str, file: Path) -> int:
    match = _KEY.fullmatch(key.removeprefix(prefix))
    if match is None or (prefix and key.removeprefix(prefix) != match[1]):
        raise ConfigError(f"{file}: {key[:60]!r} does not end with the number of a shard; write such as {prefix}001")
    return int(match[1])


def _shards(number: int, entry: _Entry, databases: int, file: Path) -> list[ShardSpec]:
    tls = _tls(entry.tls)
    if not 1 <= entry.master.port <= 65535:
        raise ConfigError(f"{file}: shard {number}: {entry.master.port} is no port; write such as 3306")
    if tls:
        try:
            tls_context(tls)
        except OSError as error:
            raise ConfigError(f"{file}: shard {number}: the files of tls cannot be used: {error}") from None
    place = Place(entry.master.host, entry.master.port, entry.user, entry.passwd, tls)
    names = [str(number), *(f"{number}d{database}" for database in range(1, databases))]
    return [ShardSpec(name, place, entry.dequeueOnly) for name in names]


def _tls(wanted: bool | _Tls) -> Tls | None:
    if isinstance(wanted, _Tls):
        return Tls(wanted.ca, wanted.cert, wanted.key)
    return Tls() if wanted else None
