"""Structs of queues <-> records: names, settings, when the oldest job fell due."""

from __future__ import annotations

from typing import Any

from pinlater.model.records import QueueSettings
from pinlater.protocol.conversion.values import present


def names(reply: Any) -> set[str]:
    """Read queue names; the codec brings sets as lists."""
    return set(present(reply))


def queue_settings(reply: Any) -> dict[str, QueueSettings]:
    """Read the settings of all queues."""
    return {
        queue: QueueSettings(bool(one.isPaused), one.maxJobsPerSecond, one.maxRunning, bool(one.isFromFile))
        for queue, one in present(reply).items()
    }


def moments(reply: Any) -> dict[str, int]:
    """Read points in time by queue."""
    found: dict[str, int] = present(reply)
    return found
