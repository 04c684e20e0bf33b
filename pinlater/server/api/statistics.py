"""Read statistics from the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinlater.errors import UnknownError
from pinlater.model.statistics import KEPT_SECONDS, StatisticsKind
from pinlater.protocol.conversion.statistics import STATISTICS
from pinlater.protocol.messages import PinLaterStatistics
from pinlater.server.api.concurrency_limit import ConcurrencyLimit
from pinlater.server.api.offload import offload
from pinlater.server.api.rules import check_queue_name
from pinlater.server.backends.statistics import StatisticsEntry, StatisticsQuery, record
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import Caller

MOST_STATISTICS = 20_000
"""Most statistics in a reply."""

_MOST_QUEUES = 1000
_MOST_WAITING = 16


class StatisticsReader:
    """Carries out the call that reads statistics, one at a time.

    Args:
        backend: the store.
        now_ms: the clock of the store.
    """

    def __init__(self, backend: Store, now_ms: Callable[[], int]) -> None:
        self._backend = backend
        self._now_ms = now_ms
        self._reading = ConcurrencyLimit("reading statistics", _MOST_WAITING)

    async def read(self, arguments: Any, _: Caller) -> list[PinLaterStatistics]:
        """Return the statistics of those of the requested periods that are still kept.

        Raises:
            UnknownError, QueueNameInvalid, QueueNameTooLong: the request is invalid, or the reply would be too long.
            NoHealthyShards: too many reads are waiting, or no shard answers.
        """
        which = self._query(arguments.request)
        async with self._reading.slot():
            found = await self._backend.read_statistics(which, MOST_STATISTICS + 1)
        if len(found) > MOST_STATISTICS:
            raise UnknownError(
                f"there are more than {MOST_STATISTICS} statistics; ask for a shorter time, for hours instead of "
                "minutes, or for fewer queues"
            )
        return await offload(len(found), _structs, found)

    def _query(self, request: Any) -> StatisticsQuery:
        kind, resolution = request.kind, request.resolutionSeconds
        if kind not in set(StatisticsKind):
            raise UnknownError(f"there are no statistics of kind {kind}; use 0 (queues), 1 (classes) or 2 (failures)")
        if resolution not in KEPT_SECONDS:
            raise UnknownError(f"there are no statistics of {resolution} s; use {' or '.join(map(str, KEPT_SECONDS))}")
        if request.sinceTimestampMillis is None:
            raise UnknownError("sinceTimestampMillis is missing: say from when on")
        queues = request.queueNames or ()
        if len(queues) > _MOST_QUEUES:
            raise UnknownError(f"{len(queues)} queues are too many for one call; name up to {_MOST_QUEUES}, or none")
        for queue in queues:
            if queue:
                check_queue_name(queue)
        now_ms, period_ms = self._now_ms(), resolution * 1000
        until_ms = now_ms if request.untilTimestampMillis is None else request.untilTimestampMillis
        since_ms = max(request.sinceTimestampMillis, now_ms - KEPT_SECONDS[resolution] * 1000)
        end_ms = min(until_ms, now_ms + period_ms)
        first_ms = since_ms // period_ms * period_ms
        return StatisticsQuery(kind, resolution, first_ms, end_ms, queues, request.name)


def _structs(found: list[StatisticsEntry]) -> list[PinLaterStatistics]:
    return STATISTICS.structs(map(record, found))
