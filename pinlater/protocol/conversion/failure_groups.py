"""Structs of failure groups <-> records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pinlater.model.failure_groups import FailureGroup
from pinlater.protocol import messages
from pinlater.protocol.conversion.values import present


def failure_groups(reply: Any) -> list[FailureGroup]:
    """Read failure groups."""
    return [
        FailureGroup(
            present(one.queueName),
            present(one.groupId),
            one.className or "",
            one.error or "",
            one.example or "",
            one.firstFailedAtTimestampMillis or 0,
            one.lastFailedAtTimestampMillis or 0,
            one.givenUp or 0,
            one.retrying or 0,
        )
        for one in present(reply)
    ]


def failure_group_structs(groups: Iterable[FailureGroup]) -> list[messages.PinLaterFailureGroup]:
    """Build the structs of failure groups."""
    return [messages.PinLaterFailureGroup(*group) for group in groups]
