"""Structs of queues <-> records: names, settings, when the oldest job fell due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.protocol import messages
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


def queue_settings_structs(settings: Mapping[str, QueueSettings]) -> dict[str, messages.PinLaterQueueSettings]:
    """Build the structs of the settings of queues."""
    return {queue: messages.PinLaterQueueSettings(*one) for queue, one in settings.items()}


def queue_change(request: messages.PinLaterChangeQueueSettingsRequest) -> QueueChange:
    """Read what is to be changed of a queue's settings."""
    return QueueChange(request.isPaused, request.maxJobsPerSecond, request.maxRunning)


def moments(reply: Any) -> dict[str, int]:
    """Read points in time by queue."""
    found: dict[str, int] = present(reply)
    return found
