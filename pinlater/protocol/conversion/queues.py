"""Structs of queues <-> records: names, settings, when the oldest job became due."""

from __future__ import annotations

from typing import Any

from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.protocol import messages
from pinlater.protocol.conversion.record_map import Conversion, RecordMap
from pinlater.protocol.conversion.values import present

_STORED = ("isPaused", "maxJobsPerSecond", "maxRunning", "shards")

QUEUE_SETTINGS = RecordMap(
    messages.PinLaterQueueSettings,
    QueueSettings,
    {"activeShards": Conversion(lambda names: tuple(names or ()), lambda names: list(names) or None)},
    order=(*_STORED, "shardsByLoad", "isFromFile", "activeShards"),
)

QUEUE_CHANGE = RecordMap(messages.PinLaterChangeQueueSettingsRequest, QueueChange, order=_STORED)


def names(reply: Any) -> set[str]:
    """Read queue names; the codec decodes sets as lists."""
    return set(present(reply))


def moments(reply: Any) -> dict[str, int]:
    """Read points in time by queue."""
    found: dict[str, int] = present(reply)
    return found
