"""Reads the store's time regularly: the clock of this machine may be off, or may just have been set."""

from __future__ import annotations

import asyncio
import logging

from pinlater.client.async_service_calls import AsyncServiceCalls
from pinlater.client.server_clock import ServerClock
from pinlater.client.store_time import NO_CANCELLATION_MS
from pinlater.errors import PinLaterError

log = logging.getLogger(__name__)

_PERIOD_SECONDS = 5.0


class ClockReader:
    """Keeps a clock at the store's time, by which all times that the dashboard shows have been recorded.

    Args:
        client: client of the server.
        clock: the clock to set.
    """

    def __init__(self, client: AsyncServiceCalls, clock: ServerClock) -> None:
        self._client = client
        self._clock = clock

    async def run(self) -> None:
        """Read until cancelled; while the server cannot be reached, the clock goes on by itself."""
        while True:
            try:
                await self.read()
            except PinLaterError as error:
                log.debug("cannot read the store's time: %s", error)
            await asyncio.sleep(_PERIOD_SECONDS)

    async def read(self) -> None:
        """Read the time once.

        Raises:
            PinLaterError: the server does not answer.
        """
        sent = self._clock.sent()
        told = await self._client.cancelled_jobs(NO_CANCELLATION_MS)
        self._clock.update(told.asked_ms, sent)
