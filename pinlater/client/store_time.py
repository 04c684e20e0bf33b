"""The time by the store's clock: that of this machine may be off."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from pinlater.errors import ProtocolError
from pinlater.protocol.operations import Call, Calls

if TYPE_CHECKING:
    from pinlater.client.async_service_calls import AsyncServiceCalls
    from pinlater.client.service_calls import ServiceCalls

NO_CANCELLATION_MS = 2**62
"""Asked for jobs that were cancelled after this, a server only tells its time."""


def _local_ms() -> int:
    return int(time.time() * 1000)


def now_ms(calls: Calls) -> Generator[Call[Any], Any, int]:
    """Yield a call and return the store's time in epoch milliseconds; an earlier server does not tell it."""
    try:
        told = yield calls.cancelled_jobs(NO_CANCELLATION_MS)
    except ProtocolError:
        return _local_ms()
    return int(told.asked_ms)


def now_ms_at(client: ServiceCalls) -> int:
    """Return the store's time as ``now_ms`` does."""
    try:
        return client.cancelled_jobs(NO_CANCELLATION_MS).asked_ms
    except ProtocolError:
        return _local_ms()


async def now_ms_of(client: AsyncServiceCalls) -> int:
    """Return the store's time as ``now_ms`` does."""
    try:
        return (await client.cancelled_jobs(NO_CANCELLATION_MS)).asked_ms
    except ProtocolError:
        return _local_ms()
