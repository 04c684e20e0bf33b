"""Background scan of running jobs, which records when their claims were first seen."""

from __future__ import annotations

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.figures import DEQUEUED
from pinlater.dashboard.first_seen import FirstSeen
from pinlater.dashboard.history import History
from pinlater.model.state import JobState

_MOST_QUEUES = 50
_MOST_JOBS = 200


class ClaimWatcher:
    """Scans queues that have handed out jobs since the last scan; an idle store is not scanned.

    Args:
        client: client of the server.
        history: source of the dequeue counters.
        first_seen: records the claims.
    """

    def __init__(self, client: AsyncVerbs, history: History, first_seen: FirstSeen) -> None:
        self._client = client
        self._history = history
        self._sightings = first_seen
        self._dequeued: dict[str, int] = {}

    async def scan(self) -> None:
        """Scan the busy queues once."""
        counts = self._history.by_queue(DEQUEUED)
        busy = [queue for queue, count in counts.items() if count != self._dequeued.get(queue)]
        self._dequeued = counts
        for queue in busy[:_MOST_QUEUES]:
            for info in (await self._client.scan(queue, JobState.IN_PROGRESS, limit=_MOST_JOBS)).jobs:
                self._sightings.since_ms(info)
