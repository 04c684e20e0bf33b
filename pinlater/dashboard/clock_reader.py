"""Reads the store's time: the clock of this machine may be off, or may just have been set."""

from __future__ import annotations

import math

from pinlater.client.async_service_calls import AsyncServiceCalls
from pinlater.client.server_clock import ServerClock
from pinlater.client.store_time import NO_CANCELLATION_MS


class ClockReader:
    """Keeps a clock at the store's time, by which all times that the dashboard shows have been recorded.

    Args:
        client: client of the server.
        clock: the clock to set.
    """

    def __init__(self, client: AsyncServiceCalls, clock: ServerClock) -> None:
        self._client = client
        self._clock = clock

    async def read(self) -> None:
        """Read the time; between two readings, the clock goes on by itself.

        It is set to the latest that the time can be: nothing that the store has recorded is then in the future, so that
        a job that was made due is shown as due.

        Raises:
            PinLaterError: the server does not answer.
        """
        sent = self._clock.sent()
        told = await self._client.cancelled_jobs(NO_CANCELLATION_MS)
        took_ms = math.ceil((self._clock.sent() - sent) * 1000)
        self._clock.update(told.asked_ms + took_ms + 1, sent)  # 1: the answer is in whole milliseconds
