"""Parse the two files of rate limits: the queue config (JSON) and the server set (one ``host:port`` a line)."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec

from pinlater.errors import ConfigError

_QUEUE_NAME = re.compile(r"\w+", re.ASCII)
_EXAMPLE = '{"queues": [{"name": "email", "queueConfig": {"maxJobsPerSecond": 10}}]}'


class _QueueConfig(msgspec.Struct):  # the only struct where other keys are allowed
    maxJobsPerSecond: float  # noqa: N815 - the format's name


class _Queue(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    queueConfig: _QueueConfig  # noqa: N815 - the format's name


class _QueueConfigs(msgspec.Struct, forbid_unknown_fields=True):
    queues: list[_Queue]


def queue_rates(content: bytes, file: Path) -> dict[str, float]:
    """Parse a queue config: return jobs per second by queue.

    Raises:
        ConfigError: it has another format, an invalid queue name, or a queue twice.
    """
    try:
        queues = msgspec.json.decode(content, type=_QueueConfigs).queues
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: is not a queue config: {error}; write {_EXAMPLE}") from None
    rates: dict[str, float] = {}
    for queue in queues:
        rate = queue.queueConfig.maxJobsPerSecond
        if not _QUEUE_NAME.fullmatch(queue.name):
            raise ConfigError(f"{file}: {queue.name[:60]!r} is not a queue name; use letters, digits and underscores")
        if queue.name in rates:
            raise ConfigError(f"{file}: queue {queue.name} is listed twice; keep one entry")
        if not math.isfinite(rate):
            raise ConfigError(f"{file}: queue {queue.name}: maxJobsPerSecond is too large; leave the queue out")
        rates[queue.name] = rate
    return rates


def count_servers(content: bytes, file: Path) -> int:
    """Count the different servers of a server set; only their number matters here.

    Raises:
        ConfigError: a line is not ``host:port``.
    """
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not UTF-8 text; write one host:port a line") from None
    servers = set()
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line:
            continue
        host, _, port = line.rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 1 <= int(port[:9]) <= 65535):
            raise ConfigError(f"{file}:{number}: {line[:60]!r} is not host:port, such as queue1.example.com:9010")
        servers.add((host, int(port)))
    return len(servers)
