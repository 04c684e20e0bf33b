"""Looks at running jobs now and then, also when nobody else does, so that it is known since when they are held."""

from __future__ import annotations

import asyncio
import logging
import time

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.figures import DEQUEUED
from pinlater.dashboard.first_seen import Sightings
from pinlater.dashboard.history import History
from pinlater.errors import PinLaterError
from pinlater.model.state import JobState

log = logging.getLogger(__name__)

_PERIOD_SECONDS = 5.0
_COST_FACTOR = 100
_MOST_QUEUES = 50
_MOST_JOBS = 200


class Watch:
    """Scans the queues of which jobs were handed out since it last looked; an idle store is left alone.

    Args:
        client: of the server.
        history: has the counts.
        sightings: is told of the claims.
    """

    def __init__(self, client: AsyncVerbs, history: History, sightings: Sightings) -> None:
        self._client = client
        self._history = history
        self._sightings = sightings
        self._dequeued: dict[str, int] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            started = time.perf_counter()
            try:
                await self.look()
            except PinLaterError as error:
                log.debug("running jobs cannot be looked at: %s", error)
            cost = time.perf_counter() - started
            await asyncio.sleep(max(_PERIOD_SECONDS - cost, cost * _COST_FACTOR))

    async def look(self) -> None:
        """Look once."""
        counts = {labels[0]: count for labels, count in self._history.counter(DEQUEUED).items()}
        busy = [queue for queue, count in counts.items() if count != self._dequeued.get(queue)]
        self._dequeued = counts
        for queue in busy[:_MOST_QUEUES]:
            for info in (await self._client.scan(queue, JobState.IN_PROGRESS, limit=_MOST_JOBS)).jobs:
                self._sightings.since_ms(info)
